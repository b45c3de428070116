// The opcodes of Python's pickle that the reader and the writer use, with the names of Python's pickletools.
#pragma once

#include <cstdint>

namespace troupe::formats::pickle {

enum class op : uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  none = 'N',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  binfloat = 'G',
  binstring = 'T',
  short_binstring = 'U',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  dict = 'd',
  empty_dict = '}',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  list = 'l',
  empty_list = ']',
  binput = 'q',
  long_binput = 'r',
  reduce = 'R',
  setitem = 's',
  setitems = 'u',
  tuple = 't',
  empty_tuple = ')',
  binpersid = 'Q',
  binbytes = 'B',
  short_binbytes = 'C',
  // opcodes that protocol 2 added
  proto = 0x80,
  newobj = 0x81,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  // opcodes that protocols 4 and 5 added
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  newobj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
};

}  // namespace troupe::formats::pickle
