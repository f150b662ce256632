/**
 * Looks up names for outgoing connections and refuses addresses at the moment of the connection, so that a name which
 * changes its address in between leads nowhere else.
 */

import { lookup as resolveName } from "node:dns";
import type { LookupFunction } from "node:net";

/** `refusal` is asked for each address of a name; one refused address refuses the name */
export function guardedLookup(refusal: (host: string, address: string) => Error | undefined): LookupFunction {
  return (host, options, callback) => {
    resolveName(host, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const refused = addresses.map(({ address }) => refusal(host, address)).find((each) => each !== undefined);
      if (refused) return callback(refused, []);
      const [first] = addresses;
      if (options.all) callback(null, addresses);
      else callback(null, first?.address ?? "", first?.family);
    });
  };
}
