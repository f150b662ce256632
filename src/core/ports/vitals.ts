/** Numbers of the host that the runtime measures for operators. */

/** The resources that a host uses, and those that it keeps free. */
export interface Vitals {
  /** machines that run, those that are paused, and those ready in the pool */
  machines: { running: number; paused: number; hot: number; warm: number };
  /** those of the host, how many of them have been busy in the last seconds, and the load average of a minute */
  processors: { count: number; busy: number; load: number };
  /** of the host, in bytes; available: what programs can still get, also from the kernel's caches */
  memory: { total: number; available: number };
  /** in bytes; unset if the disk is not watched */
  disk?: { places: DiskVitals[]; isGrowthStopped: boolean };
  /** on the whole host, and the limit above which machines lose processes */
  openFiles: { now: number; most: number };
  /** the kernel's TCP memory on the whole host in bytes, and the limit above which machines lose processes */
  tcpMemory: { now: number; most: number };
}

export interface DiskVitals {
  /** the disk of the data directory, or the file system of the store */
  place: "disk" | "store";
  total: number;
  free: number;
  reserve: number;
}
