// Maps opcodes to actions of pickle_parser, which executes them.
#include "formats/torch/pickle_reader.hpp"

#include <fmt/format.h>

#include <array>

#include "formats/torch/pickle_opcodes.hpp"
#include "formats/torch/pickle_parser.hpp"

namespace troupe::formats {

/// Executes each opcode of a pickle on the parser.
struct pickle_parser::opcodes {
  using action = void (*)(pickle_parser&);
  std::array<action, 256> all{};

  constexpr opcodes() {
    all.fill([](pickle_parser& p) { p.refuse_opcode(); });
    add_frame();
    add_values();
    add_stack();
    add_containers();
    add_calls();
  }

 private:
  constexpr void on(op code, action a) { all[static_cast<uint8_t>(code)] = a; }

  constexpr void add_frame() {
    on(op::proto, [](pickle_parser& p) {
      if (const auto version = p.take(1); version < 2 || version > 5)
        p.refuse(fmt::format("its protocol is {}, 2 to 5 were wanted", version));
    });
    on(op::frame, [](pickle_parser& p) {
      if (const auto n = p.take(8); n > p.limit_ - p.at_) p.refuse("a frame is longer than the file");
    });
    on(op::stop, [](pickle_parser& p) { p.stop(); });
  }

  constexpr void add_values() {
    on(op::none, [](pickle_parser& p) { p.push({}); });
    on(op::newtrue, [](pickle_parser& p) { p.push_boolean(true); });
    on(op::newfalse, [](pickle_parser& p) { p.push_boolean(false); });
    on(op::binint, [](pickle_parser& p) { p.push_integer(static_cast<int32_t>(p.take(4))); });
    on(op::binint1, [](pickle_parser& p) { p.push_integer(static_cast<int64_t>(p.take(1))); });
    on(op::binint2, [](pickle_parser& p) { p.push_integer(static_cast<int64_t>(p.take(2))); });
    on(op::long1, [](pickle_parser& p) { p.push_whole_number(p.take(1)); });
    on(op::long4, [](pickle_parser& p) { p.push_whole_number(p.take(4)); });
    on(op::binfloat, [](pickle_parser& p) { p.push_bits(pickle_kind::real, __builtin_bswap64(p.take(8))); });
    on(op::short_binunicode, [](pickle_parser& p) { p.push_text(pickle_kind::text, p.take(1)); });
    on(op::binunicode, [](pickle_parser& p) { p.push_text(pickle_kind::text, p.take(4)); });
    on(op::binunicode8, [](pickle_parser& p) { p.push_text(pickle_kind::text, p.take(8)); });
    on(op::short_binstring, [](pickle_parser& p) { p.push_text(pickle_kind::text, p.take(1)); });
    on(op::binstring, [](pickle_parser& p) { p.push_text(pickle_kind::text, p.take(4)); });
    on(op::short_binbytes, [](pickle_parser& p) { p.push_text(pickle_kind::bytes, p.take(1)); });
    on(op::binbytes, [](pickle_parser& p) { p.push_text(pickle_kind::bytes, p.take(4)); });
    on(op::binbytes8, [](pickle_parser& p) { p.push_text(pickle_kind::bytes, p.take(8)); });
    on(op::bytearray8, [](pickle_parser& p) { p.push_text(pickle_kind::bytes, p.take(8)); });
  }

  constexpr void add_stack() {
    on(op::mark, [](pickle_parser& p) { p.marks_.push_back(p.stack_.size()); });
    on(op::pop, [](pickle_parser& p) {
      if (!p.marks_.empty() && p.marks_.back() == p.stack_.size())
        p.marks_.pop_back();
      else
        p.pop();
    });
    on(op::pop_mark, [](pickle_parser& p) { p.pop_mark(); });
    on(op::dup, [](pickle_parser& p) {
      if (const auto one = p.top(1); !one.empty()) p.stack_.push_back(pickle_ref{one.front()});
    });
    on(op::binput, [](pickle_parser& p) { p.memoize(p.take(1)); });
    on(op::long_binput, [](pickle_parser& p) { p.memoize(p.take(4)); });
    on(op::memoize, [](pickle_parser& p) { p.memoize(p.memo_count_); });
    on(op::binget, [](pickle_parser& p) { p.recall(p.take(1)); });
    on(op::long_binget, [](pickle_parser& p) { p.recall(p.take(4)); });
  }

  constexpr void add_containers() {
    on(op::empty_list, [](pickle_parser& p) { p.push_items(pickle_kind::list, {}); });
    on(op::empty_dict, [](pickle_parser& p) { p.push_items(pickle_kind::dict, {}); });
    on(op::empty_set, [](pickle_parser& p) { p.push_items(pickle_kind::set, {}); });
    on(op::empty_tuple, [](pickle_parser& p) { p.push_items(pickle_kind::tuple, {}); });
    on(op::tuple1, [](pickle_parser& p) { p.replace(1, pickle_kind::tuple); });
    on(op::tuple2, [](pickle_parser& p) { p.replace(2, pickle_kind::tuple); });
    on(op::tuple3, [](pickle_parser& p) { p.replace(3, pickle_kind::tuple); });
    on(op::tuple, [](pickle_parser& p) { p.push_items(pickle_kind::tuple, p.pop_mark()); });
    on(op::list, [](pickle_parser& p) { p.push_items(pickle_kind::list, p.pop_mark()); });
    on(op::frozenset, [](pickle_parser& p) { p.push_items(pickle_kind::set, p.pop_mark()); });
    on(op::dict, [](pickle_parser& p) {
      const auto items = p.pop_mark();
      if (items.size() % 2 != 0) return p.refuse("a key has no value");
      p.push_items(pickle_kind::dict, items);
    });
    on(op::append, [](pickle_parser& p) { p.put_top(1, pickle_kind::list); });
    on(op::appends, [](pickle_parser& p) { p.put_into(pickle_kind::list, p.pop_mark()); });
    on(op::setitem, [](pickle_parser& p) { p.put_top(2, pickle_kind::dict); });
    on(op::setitems, [](pickle_parser& p) { p.put_into(pickle_kind::dict, p.pop_mark()); });
    on(op::additems, [](pickle_parser& p) { p.put_into(pickle_kind::set, p.pop_mark()); });
  }

  constexpr void add_calls() {
    on(op::global, [](pickle_parser& p) {
      p.push_line();
      p.push_line();
      p.pop_global();
    });
    on(op::stack_global, [](pickle_parser& p) { p.pop_global(); });
    on(op::reduce, [](pickle_parser& p) { p.pop_call(); });
    on(op::newobj, [](pickle_parser& p) { p.pop_call(); });
    on(op::newobj_ex, [](pickle_parser& p) { p.pop_call_with_keywords(); });
    on(op::build, [](pickle_parser& p) { p.build(); });
    on(op::binpersid, [](pickle_parser& p) { p.replace(1, pickle_kind::persistent); });
  }
};

void pickle_parser::step(op code) {
  static constexpr opcodes known;
  if (why_.empty()) known.all[static_cast<uint8_t>(code)](*this);
}

core::result<pickle_tree> read_pickle(std::span<const std::byte> bytes) { return pickle_parser(bytes).run(); }

core::result<pickle_tree> read_pickle(const core::source_file& file, uint64_t begin, uint64_t bytes) {
  return pickle_parser(file, begin, bytes).run();
}

}  // namespace troupe::formats
