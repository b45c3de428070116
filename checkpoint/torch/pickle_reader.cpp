// One pass over the opcodes; the machine is pickle_parser's.
#include "checkpoint/torch/pickle_reader.hpp"

#include <fmt/format.h>

#include "checkpoint/torch/pickle_opcodes.hpp"
#include "checkpoint/torch/pickle_parser.hpp"

namespace troupe::checkpoint {

void pickle_parser::step(op code) {
  if (!why_.empty()) return;
  switch (code) {
    case op::proto:
      if (const auto version = take(1); version < 2 || version > 5)
        refuse(fmt::format("its protocol is {}, 2 to 5 were wanted", version));
      break;
    case op::frame:
      if (const auto n = take(8); n > limit_ - at_) refuse("a frame is longer than the file");
      break;
    case op::stop:
      if (stack_.size() != 1 || !marks_.empty()) return refuse("one value is wanted at its end");
      tree_.root_ = stack_.front();
      done_ = true;
      break;

    case op::none:
      push({});
      break;
    case op::newtrue:
      push_boolean(true);
      break;
    case op::newfalse:
      push_boolean(false);
      break;
    case op::binint:
      push_integer(static_cast<int32_t>(take(4)));
      break;
    case op::binint1:
      push_integer(static_cast<int64_t>(take(1)));
      break;
    case op::binint2:
      push_integer(static_cast<int64_t>(take(2)));
      break;
    case op::long1:
      push_whole_number(take(1));
      break;
    case op::long4:
      push_whole_number(take(4));
      break;
    case op::binfloat:
      push_bits(pickle_kind::real, __builtin_bswap64(take(8)));
      break;
    case op::short_binunicode:
      push_text(pickle_kind::text, take(1));
      break;
    case op::binunicode:
      push_text(pickle_kind::text, take(4));
      break;
    case op::binunicode8:
      push_text(pickle_kind::text, take(8));
      break;
    case op::short_binstring:
      push_text(pickle_kind::text, take(1));
      break;
    case op::binstring:
      push_text(pickle_kind::text, take(4));
      break;
    case op::short_binbytes:
      push_text(pickle_kind::bytes, take(1));
      break;
    case op::binbytes:
      push_text(pickle_kind::bytes, take(4));
      break;
    case op::binbytes8:
    case op::bytearray8:
      push_text(pickle_kind::bytes, take(8));
      break;

    case op::mark:
      marks_.push_back(stack_.size());
      break;
    case op::pop:
      if (!marks_.empty() && marks_.back() == stack_.size())
        marks_.pop_back();
      else
        pop();
      break;
    case op::pop_mark:
      pop_mark();
      break;
    case op::dup:
      if (const auto one = top(1); !one.empty()) stack_.push_back(pickle_ref{one.front()});
      break;
    case op::empty_list:
      push_items(pickle_kind::list, {});
      break;
    case op::empty_dict:
      push_items(pickle_kind::dict, {});
      break;
    case op::empty_set:
      push_items(pickle_kind::set, {});
      break;
    case op::empty_tuple:
      push_items(pickle_kind::tuple, {});
      break;
    case op::tuple1:
      replace(1, pickle_kind::tuple);
      break;
    case op::tuple2:
      replace(2, pickle_kind::tuple);
      break;
    case op::tuple3:
      replace(3, pickle_kind::tuple);
      break;
    case op::tuple:
      push_items(pickle_kind::tuple, pop_mark());
      break;
    case op::list:
      push_items(pickle_kind::list, pop_mark());
      break;
    case op::frozenset:
      push_items(pickle_kind::set, pop_mark());
      break;
    case op::dict: {
      const auto items = pop_mark();
      if (items.size() % 2 != 0) return refuse("a key has no value");
      push_items(pickle_kind::dict, items);
      break;
    }
    case op::append:
      put_top(1, pickle_kind::list);
      break;
    case op::appends:
      put_into(pickle_kind::list, pop_mark());
      break;
    case op::setitem:
      put_top(2, pickle_kind::dict);
      break;
    case op::setitems:
      put_into(pickle_kind::dict, pop_mark());
      break;
    case op::additems:
      put_into(pickle_kind::set, pop_mark());
      break;

    case op::binput:
      memoize(take(1));
      break;
    case op::long_binput:
      memoize(take(4));
      break;
    case op::memoize:
      memoize(memo_count_);
      break;
    case op::binget:
      recall(take(1));
      break;
    case op::long_binget:
      recall(take(4));
      break;

    case op::global: {
      push_line();
      push_line();
      const pickle_ref name = pop(), module = pop();
      push_global(module, name);
      break;
    }
    case op::stack_global: {
      const pickle_ref name = pop(), module = pop();
      push_global(module, name);
      break;
    }
    case op::reduce:
    case op::newobj: {
      const pickle_ref args = pop(), target = pop();
      call(target, args);
      break;
    }
    case op::newobj_ex: {  // keyword arguments stay with the positional ones: (args, kwargs)
      const auto three = top(3);
      if (three.empty()) return;
      if (tree_.kind(three[1]) != pickle_kind::tuple || tree_.kind(three[2]) != pickle_kind::dict)
        return refuse("a call whose arguments are no tuple and dict");
      replace(2, pickle_kind::tuple);
      const pickle_ref args = pop(), target = pop();
      call(target, args);
      break;
    }
    case op::build:
      build();
      break;
    case op::binpersid:
      replace(1, pickle_kind::persistent);
      break;
    default:
      if (why_.empty()) refuse(fmt::format("its opcode 0x{:02x} is not among those read here", static_cast<int>(code)));
  }
}

core::result<pickle_tree> read_pickle(std::span<const std::byte> bytes) { return pickle_parser(bytes).run(); }

core::result<pickle_tree> read_pickle(const core::source_file& file, uint64_t begin, uint64_t bytes) {
  return pickle_parser(file, begin, bytes).run();
}

}  // namespace troupe::checkpoint
