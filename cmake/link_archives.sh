#!/bin/sh
# link_archives.sh COMMAND...: links with archives where the system has them. Of each shared library that COMMAND names by
# its path the archive beside it takes its place; what has none stays as it is.
for argument; do
  shift
  case $argument in
    /*.so | /*.so.*)
      archive=${argument%.so*}.a
      [ -e "$archive" ] && argument=$archive
      ;;
  esac
  set -- "$@" "$argument"
done
exec "$@"
