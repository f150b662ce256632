/* view_files.h: the files of view.h by their names, for the code that puts them in place and for tests. */
#ifndef SANDKEEP_VIEW_FILES_H
#define SANDKEEP_VIEW_FILES_H

#include "view/fuse.h"

extern const struct fuse_directory view_files;

#endif
