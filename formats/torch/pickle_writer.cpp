// Writes the shortest opcode of protocol 2 for each value.
#include "formats/torch/pickle_writer.hpp"

#include <bit>
#include <limits>

#include "formats/torch/pickle_opcodes.hpp"

namespace troupe::formats {

using pickle::op;

namespace {
char code(op o) { return static_cast<char>(o); }
}  // namespace

pickle_writer::pickle_writer() : out_{code(op::proto), 2} {}

void pickle_writer::number(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
}

void pickle_writer::none() { out_ += code(op::none); }
void pickle_writer::boolean(bool value) { out_ += code(value ? op::newtrue : op::newfalse); }

void pickle_writer::integer(int64_t value) {
  if (value >= 0 && value <= 0xFF) {
    out_ += code(op::binint1);
    number(static_cast<uint64_t>(value), 1);
  } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    out_ += code(op::binint);
    number(static_cast<uint64_t>(value), 4);
  } else {
    out_ += code(op::long1);
    number(8, 1);
    number(static_cast<uint64_t>(value), 8);
  }
}

void pickle_writer::real(double value) {
  out_ += code(op::binfloat);
  number(__builtin_bswap64(std::bit_cast<uint64_t>(value)), 8);
}

void pickle_writer::text(std::string_view utf8) {
  out_ += code(op::binunicode);
  number(utf8.size(), 4);
  out_ += utf8;
}

void pickle_writer::global(std::string_view module, std::string_view name) {
  out_ += code(op::global);
  out_.append(module).append("\n").append(name).append("\n");
}

void pickle_writer::empty_dict() { out_ += code(op::empty_dict); }
void pickle_writer::empty_list() { out_ += code(op::empty_list); }
void pickle_writer::mark() { out_ += code(op::mark); }
void pickle_writer::end_tuple() { out_ += code(op::tuple); }
void pickle_writer::end_items() { out_ += code(op::appends); }
void pickle_writer::end_pairs() { out_ += code(op::setitems); }
void pickle_writer::call() { out_ += code(op::reduce); }
void pickle_writer::make() { out_ += code(op::newobj); }
void pickle_writer::set_state() { out_ += code(op::build); }
void pickle_writer::persistent_id() { out_ += code(op::binpersid); }

std::string pickle_writer::finish() {
  out_ += code(op::stop);
  return std::move(out_);
}

}  // namespace troupe::formats
