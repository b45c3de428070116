#include "data/templates/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "data/templates/access.hpp"
#include "data/templates/date_text.hpp"
#include "data/templates/filters.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/methods.hpp"
#include "data/templates/operators.hpp"
#include "data/templates/printing.hpp"
#include "data/templates/tests.hpp"

namespace troupe::data::templates {
namespace {

constexpr std::array<std::string_view, 5> global_functions{"range", "dict", "namespace", "raise_exception",
                                                           "strftime_now"};

/// The variable with which a caller of render() replaces the clock.
constexpr std::string_view clock_variable = "strftime_now";

}  // namespace

/// Counts parts that are being evaluated while it exists.
class evaluator::depth_guard {
 public:
  explicit depth_guard(uint32_t& depth) : depth_(depth) { ++depth_; }
  ~depth_guard() { --depth_; }
  depth_guard(const depth_guard&) = delete;
  depth_guard& operator=(const depth_guard&) = delete;

 private:
  uint32_t& depth_;
};

/// Enters a frame inside of the frames around it, and restores the frames that were seen before.
class evaluator::frame_guard {
 public:
  frame_guard(evaluator& of, const frame_plan& plan) : of_(of), before_(of.frames_) {
    of_.frames_.resize(plan.depth);
    frame_.slots.resize(plan.loads.size());
    of_.frames_.push_back(&frame_);
    load(plan);
  }
  ~frame_guard() { of_.frames_ = std::move(before_); }
  frame_guard(const frame_guard&) = delete;
  frame_guard& operator=(const frame_guard&) = delete;

  /// Gives the variables the values that they have at the beginning of the frame.
  void load(const frame_plan& plan) {
    for (const auto& one : plan.loads) {
      if (one.is == variable_load::kind::resolve) frame_.slots[one.slot] = of_.resolved(one.name);
      if (one.is == variable_load::kind::undefined) frame_.slots[one.slot].reset();
      if (one.is == variable_load::kind::alias) frame_.slots[one.slot] = of_.slot(one.outer);
    }
  }

  [[nodiscard]] std::optional<value>& slot(uint32_t i) { return frame_.slots[i]; }

 private:
  evaluator& of_;
  std::vector<variable_frame*> before_;
  variable_frame frame_{};
};

evaluator::~evaluator() {
  for (const auto& one : name_spaces_) one->attributes.clear();
}

core::result<std::string> evaluator::render() {
  const frame_guard root(*this, tree_.frame);
  TROUPE_TRY(run(tree_.body));
  return std::move(rendered_);
}

std::optional<value> evaluator::resolved(const std::string& name) const {
  if (name != clock_variable)
    if (const auto* found = (*variables_.as<dictionary_pointer>())->find(name)) return *found;
  const auto* const at = std::ranges::find(global_functions, name);
  if (at == global_functions.end()) return std::nullopt;
  return value{global_function{*at}};
}

core::result<void> evaluator::append(std::string_view text) {
  TROUPE_TRY(left_.take_text(text.size()));
  const size_t all = out_->size() + text.size();
  if (all > largest_text) TROUPE_TRY(left_.take_text(all));
  *out_ += text;
  return {};
}

// Statements.

core::result<evaluator::flow> evaluator::run(const std::vector<statement>& body) {
  for (const auto& one : body) {
    TROUPE_ASSIGN(const flow ended, run(one));
    if (ended != flow::goes_on) return ended;
  }
  return flow::goes_on;
}

core::result<evaluator::flow> evaluator::run(const statement& one) {
  const depth_guard deeper(depth_);
  auto ended = run_known(one);
  if (!ended && !failed_at_) failed_at_ = one.at;
  return ended;
}

core::result<evaluator::flow> evaluator::run_known(const statement& one) {
  TROUPE_TRY(left_.take(1));
  if (depth_ > deepest_evaluation)
    return core::fail(core::error_kind::limit, fmt::format("more than {} parts call each other", deepest_evaluation));
  switch (one.is) {
    case statement::kind::text:
      TROUPE_TRY(append(one.word));
      return flow::goes_on;
    case statement::kind::print:
      TROUPE_TRY(print(one));
      return flow::goes_on;
    case statement::kind::branch:
      return run_branch(one);
    case statement::kind::loop:
      return run_loop(one);
    case statement::kind::set: {
      TROUPE_ASSIGN(const auto x, evaluate(one.values[0]));
      TROUPE_TRY(assign(one.targets[0], x));
      return flow::goes_on;
    }
    case statement::kind::set_block:
      return run_set_block(one);
    case statement::kind::macro:
      slot(one.macro_place) =
          value{std::make_shared<const macro_object>(macro_object{&one, {frames_.begin(), frames_.begin() + 1}, {}})};
      return flow::goes_on;
    case statement::kind::call_block:
      TROUPE_TRY(run_call_block(one));
      return flow::goes_on;
    case statement::kind::filter_block:
      return run_filter_block(one);
    case statement::kind::with:
      return run_with(one);
    case statement::kind::generation:
      return run_generation(one);
    case statement::kind::leave:
      return flow::leaves_loop;
    case statement::kind::next:
      break;
  }
  return flow::next_item;
}

core::result<void> evaluator::print(const statement& one) {
  for (const auto& part : one.values) {
    TROUPE_ASSIGN(const auto x, evaluate(part));
    TROUPE_ASSIGN(const auto made, printed(x, left_));
    TROUPE_TRY(append(made));
  }
  return {};
}

core::result<evaluator::flow> evaluator::run_branch(const statement& one) {
  TROUPE_ASSIGN(const auto test, evaluate(one.values[0]));
  if (truth(test)) return run(one.body);
  for (const auto& other : one.others) {
    TROUPE_ASSIGN(const auto x, evaluate(other.values[0]));
    if (truth(x)) return run(other.body);
  }
  return run(one.otherwise);
}

core::result<value> evaluator::reassembled(const expression& target) {
  if (target.is == expression::kind::name) return slot(target.place).value_or(value{});
  values parts;
  for (const auto& part : target.parts) {
    TROUPE_ASSIGN(auto x, reassembled(part));
    parts.push_back(std::move(x));
  }
  return list_of(std::move(parts), left_, true);
}

core::result<cursor> evaluator::loop_items(const statement& one) {
  TROUPE_ASSIGN(const auto of, evaluate(one.values[0]));
  TROUPE_ASSIGN(auto all, items_of(of, left_));
  if (one.values.size() < 2) return all;
  // The condition is tried when the loop asks for the next item, so it sees what the loop has changed until then.
  cursor out;
  out.next = [this, &one, from = std::move(all), frames = frames_]() -> core::result<std::optional<value>> {
    const auto before = std::exchange(frames_, frames);
    const auto next = [&]() -> core::result<std::optional<value>> {
      const frame_guard inside(*this, one.test_frame);
      for (;;) {
        TROUPE_TRY(left_.take(1));
        TROUPE_ASSIGN(auto item, from.next());
        if (!item) return std::optional<value>();
        TROUPE_TRY(assign(one.targets[1], *item));
        TROUPE_ASSIGN(const auto test, evaluate(one.values[1]));
        if (!truth(test)) continue;
        TROUPE_ASSIGN(auto found, reassembled(one.targets[1]));
        return std::optional<value>(std::move(found));
      }
    };
    auto out_of_test = next();
    frames_ = before;
    return out_of_test;
  };
  return out;
}

core::result<evaluator::flow> evaluator::run_items(const statement& one, loop_state& state,
                                                   const std::shared_ptr<loop_state>& shared, bool& had_none) {
  for (;;) {
    TROUPE_TRY(left_.take(1));
    bool has_item = false;
    std::optional<value> item;
    if (one.uses_loop) {
      TROUPE_ASSIGN(has_item, state.advance());
      item = state.current;
    } else {
      TROUPE_ASSIGN(item, state.from.next());
      has_item = item.has_value();
    }
    if (!has_item) return flow::goes_on;
    frame_guard inside(*this, one.frame);
    if (one.uses_loop) slot(one.loop) = value{shared};
    TROUPE_TRY(assign(one.targets[0], *item));
    TROUPE_ASSIGN(const flow ended, run(one.body));
    if (ended == flow::leaves_loop) return flow::goes_on;
    // An item that `continue` ends does not count for the loop's `else`, as in Jinja.
    if (ended == flow::goes_on) had_none = false;
  }
}

core::result<evaluator::flow> evaluator::run_loop(const statement& one) {
  const auto state = std::make_shared<loop_state>();
  TROUPE_ASSIGN(state->from, loop_items(one));
  bool had_none = true;
  const auto ended = run_items(one, *state, state, had_none);
  state->close();
  TROUPE_TRY(ended);
  if (!had_none || one.otherwise.empty()) return flow::goes_on;
  const frame_guard inside(*this, one.else_frame);
  return run(one.otherwise);
}

core::result<evaluator::flow> evaluator::run_apart(const std::vector<statement>& body, std::string& out) {
  auto* const before = std::exchange(out_, &out);
  auto ended = run(body);
  out_ = before;
  return ended;
}

core::result<evaluator::flow> evaluator::run_set_block(const statement& one) {
  value x;
  {
    const frame_guard inside(*this, one.frame);
    std::string made;
    TROUPE_ASSIGN(const flow ended, run_apart(one.body, made));
    if (ended != flow::goes_on) return ended;
    x = text(std::move(made));
    if (!one.values.empty()) {
      block_texts_.push_back(std::move(x));
      TROUPE_ASSIGN(x, evaluate(one.values[0]));
      block_texts_.pop_back();
    }
  }
  TROUPE_TRY(assign(one.targets[0], x));
  return flow::goes_on;
}

core::result<evaluator::flow> evaluator::run_filter_block(const statement& one) {
  const frame_guard inside(*this, one.frame);
  std::string made;
  TROUPE_ASSIGN(const flow ended, run_apart(one.body, made));
  if (ended != flow::goes_on) return ended;
  block_texts_.push_back(text(std::move(made)));
  TROUPE_ASSIGN(const auto x, evaluate(one.values[0]));
  block_texts_.pop_back();
  TROUPE_ASSIGN(const auto out, printed(x, left_));
  TROUPE_TRY(append(out));
  return flow::goes_on;
}

core::result<evaluator::flow> evaluator::run_with(const statement& one) {
  values all;
  for (const auto& part : one.values) {
    TROUPE_ASSIGN(auto x, evaluate(part));
    all.push_back(std::move(x));
  }
  const frame_guard inside(*this, one.frame);
  for (size_t i = 0; i < all.size(); ++i) TROUPE_TRY(assign(one.targets[i], all[i]));
  return run(one.body);
}

core::result<evaluator::flow> evaluator::run_generation(const statement& one) {
  const size_t begin = out_->size();
  const frame_guard inside(*this, one.frame);
  TROUPE_TRY(run(one.body));
  generated_.push_back({begin, out_->size()});
  return flow::goes_on;
}

core::result<void> evaluator::run_call_block(const statement& one) {
  const auto closed = std::make_shared<bool>(false);
  TROUPE_ASSIGN(const auto callee, evaluate(one.values[0].parts[0]));
  TROUPE_ASSIGN(auto arguments, evaluate_arguments(one.values[0]));
  arguments.named.emplace_back("caller",
                               value{std::make_shared<const macro_object>(macro_object{&one, frames_, closed})});
  const auto made = call(callee, std::move(arguments));
  *closed = true;
  TROUPE_TRY(made);
  TROUPE_ASSIGN(const auto out, printed(*made, left_));
  return append(out);
}

// Assignments.

core::result<void> evaluator::assign(const expression& target, const value& x) {
  if (target.is == expression::kind::name) {
    slot(target.place) = x;
    return {};
  }
  if (target.is == expression::kind::attribute) {
    const auto& of = slot(target.parts[0].place);
    const auto* n = of ? of->as<std::shared_ptr<name_space>>() : nullptr;
    if (n == nullptr)
      return core::refused(fmt::format("'{}' is no namespace, so '{}' cannot be assigned",
                                       core::shown(target.parts[0].word), core::shown(target.word)));
    if (target.word.starts_with('_'))
      return core::refused(
          fmt::format("a namespace has no attribute '{}': names may not begin with '_'", core::shown(target.word)));
    (*n)->attributes.insert_or_assign(target.word, x);
    return {};
  }
  TROUPE_ASSIGN(const auto from, items_of(x, left_));
  for (const auto& part : target.parts) {
    TROUPE_ASSIGN(const auto one, from.next());
    if (!one) return core::refused(fmt::format("wanted {} values to assign, got fewer", target.parts.size()));
    TROUPE_TRY(assign(part, *one));
  }
  TROUPE_ASSIGN(const auto more, from.next());
  if (more) return core::refused(fmt::format("wanted {} values to assign, got more", target.parts.size()));
  return {};
}

// Expressions.

core::result<value> evaluator::evaluate(const expression& one) {
  const depth_guard deeper(depth_);
  auto out = evaluate_known(one);
  if (!out && !failed_at_) failed_at_ = one.at;
  return out;
}

core::result<values> evaluator::evaluate_parts(const expression& one) {
  values out;
  for (const auto& part : one.parts) {
    TROUPE_ASSIGN(auto x, evaluate(part));
    out.push_back(std::move(x));
  }
  return out;
}

core::result<value> evaluator::evaluate_known(const expression& one) {
  TROUPE_TRY(left_.take(1));
  if (depth_ > deepest_evaluation)
    return core::fail(core::error_kind::limit, fmt::format("more than {} parts call each other", deepest_evaluation));
  switch (one.is) {
    case expression::kind::constant:
      return one.constant;
    case expression::kind::block_text:
      return block_texts_.empty() ? text("") : block_texts_.back();
    case expression::kind::name:
      return evaluate_name(one);
    case expression::kind::dictionary:
      return evaluate_dictionary(one);
    case expression::kind::concat:
      return evaluate_concat(one);
    case expression::kind::compare:
      return evaluate_compare(one);
    case expression::kind::condition:
      return evaluate_condition(one);
    case expression::kind::call:
      return evaluate_call(one);
    default:
      break;
  }
  if (one.is == expression::kind::all_of || one.is == expression::kind::any_of) {
    TROUPE_ASSIGN(auto first, evaluate(one.parts[0]));
    if (truth(first) == (one.is == expression::kind::any_of)) return first;
    return evaluate(one.parts[1]);
  }
  if (one.is == expression::kind::filter || one.is == expression::kind::test) {
    TROUPE_ASSIGN(const auto of, evaluate(one.parts[0]));
    TROUPE_ASSIGN(auto arguments, evaluate_arguments(one));
    if (one.is == expression::kind::filter) return apply_filter(one.word, of, std::move(arguments), left_);
    TROUPE_ASSIGN(const bool holds, apply_test(one.word, of, std::move(arguments), left_));
    return boolean(holds);
  }
  TROUPE_ASSIGN(auto parts, evaluate_parts(one));
  switch (one.is) {
    case expression::kind::list:
    case expression::kind::tuple:
      return list_of(std::move(parts), left_, one.is == expression::kind::tuple);
    case expression::kind::binary:
      return binary(one.word, parts[0], parts[1], left_);
    case expression::kind::sign:
      return with_sign(one.word == "-", parts[0]);
    case expression::kind::negation:
      return boolean(!truth(parts[0]));
    case expression::kind::attribute:
      return attribute_of(parts[0], one.word, left_);
    case expression::kind::item:
      return item_of(parts[0], parts[1], left_);
    default:
      break;
  }
  return slice_of(parts[0], parts[1], parts[2], parts[3], left_);
}

core::result<value> evaluator::evaluate_name(const expression& one) {
  const auto& found = slot(one.place);
  if (found) return *found;
  return undefined(fmt::format("'{}' is undefined", core::shown(one.word)));
}

core::result<value> evaluator::evaluate_dictionary(const expression& one) {
  TROUPE_ASSIGN(auto parts, evaluate_parts(one));
  std::vector<std::pair<value, value>> entries;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) entries.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
  return dictionary_of(std::move(entries), left_);
}

core::result<value> evaluator::evaluate_concat(const expression& one) {
  TROUPE_ASSIGN(const auto parts, evaluate_parts(one));
  std::string out;
  for (const auto& part : parts) {
    TROUPE_ASSIGN(const auto made, printed(part, left_));
    out += made;
    TROUPE_TRY(left_.take_text(out.size()));
  }
  return text(std::move(out));
}

core::result<value> evaluator::evaluate_compare(const expression& one) {
  TROUPE_ASSIGN(auto x, evaluate(one.parts[0]));
  for (size_t i = 0; i < one.words.size(); ++i) {
    TROUPE_ASSIGN(auto y, evaluate(one.parts[i + 1]));
    TROUPE_ASSIGN(const bool holds, compared(one.words[i], x, y, left_));
    if (!holds) return boolean(false);
    x = std::move(y);
  }
  return boolean(true);
}

core::result<value> evaluator::evaluate_condition(const expression& one) {
  TROUPE_ASSIGN(const auto test, evaluate(one.parts[0]));
  if (truth(test)) return evaluate(one.parts[1]);
  if (one.parts.size() > 2) return evaluate(one.parts[2]);
  return undefined("the condition of an 'if' without 'else' is false");
}

// Calls.

core::result<call_arguments> evaluator::evaluate_arguments(const expression& one) {
  call_arguments out;
  for (size_t i = 1; i < one.parts.size(); ++i) {
    const std::string& word = one.words[i - 1];
    TROUPE_ASSIGN(auto x, evaluate(one.parts[i]));
    if (word.empty()) {
      out.positional.push_back(std::move(x));
    } else if (word == "*") {
      TROUPE_ASSIGN(auto all, all_items_of(x, left_));
      for (auto& item : all) out.positional.push_back(std::move(item));
    } else if (word == "**") {
      const auto* d = x.as<dictionary_pointer>();
      if (d == nullptr) return core::refused(fmt::format("'**' wants a mapping, got a value of type {}", type_name(x)));
      for (const auto& [key, item] : (*d)->entries) {
        TROUPE_ASSIGN(auto name, text_argument("a keyword", key));
        for (const auto& [before, unused] : out.named)
          if (before == name) return core::refused(fmt::format("the argument '{}' is there twice", core::shown(name)));
        out.named.emplace_back(std::move(name), item);
      }
    } else {
      out.named.emplace_back(word, std::move(x));
    }
  }
  return out;
}

core::result<value> evaluator::evaluate_call(const expression& one) {
  TROUPE_ASSIGN(const auto callee, evaluate(one.parts[0]));
  TROUPE_ASSIGN(auto arguments, evaluate_arguments(one));
  return call(callee, std::move(arguments));
}

core::result<value> evaluator::call(const value& callee, call_arguments arguments) {
  if (const auto* u = callee.as<undefined_value>()) return core::refused(u->why);
  if (const auto* m = callee.as<std::shared_ptr<const macro_object>>()) return call_macro(**m, std::move(arguments));
  if (const auto* m = callee.as<std::shared_ptr<const bound_method>>())
    return call_method(**m, std::move(arguments), left_);
  if (const auto* f = callee.as<global_function>()) return call_global(f->name, std::move(arguments));
  return core::refused(fmt::format("a value of type {} cannot be called", type_name(callee)));
}

core::result<value> evaluator::call_macro(const macro_object& macro, call_arguments arguments) {
  const statement& what = *macro.what;
  if (macro.is_closed && *macro.is_closed) return core::refused("a caller is called after its call block has ended");
  const auto before = std::exchange(frames_, macro.frames);
  const auto taken = [&](std::string_view name) -> std::optional<value> {
    for (auto at = arguments.named.begin(); at != arguments.named.end(); ++at)
      if (at->first == name) {
        std::optional<value> out(std::move(at->second));
        arguments.named.erase(at);
        return out;
      }
    return std::nullopt;
  };
  const auto made = [&]() -> core::result<value> {
    frame_guard inside(*this, what.frame);
    const size_t count = what.targets.size(), given = std::min(count, arguments.positional.size());
    for (size_t i = 0; i < count; ++i)
      inside.slot(what.targets[i].place.slot) =
          i < given ? std::optional<value>(std::move(arguments.positional[i])) : taken(what.targets[i].word);
    if (what.caller) inside.slot(*what.caller) = taken("caller").value_or(undefined("no caller is defined"));
    if (what.keywords) {
      std::vector<std::pair<value, value>> entries;
      for (auto& [name, x] : arguments.named) entries.emplace_back(text(name), std::move(x));
      TROUPE_ASSIGN(inside.slot(*what.keywords), dictionary_of(std::move(entries), left_));
    } else if (!arguments.named.empty()) {
      return core::refused(fmt::format("the macro has no parameter '{}'", core::shown(arguments.named[0].first)));
    }
    if (what.positional) {
      values rest;
      for (size_t i = given; i < arguments.positional.size(); ++i) rest.push_back(std::move(arguments.positional[i]));
      TROUPE_ASSIGN(inside.slot(*what.positional), list_of(std::move(rest), left_, true));
    } else if (arguments.positional.size() > count) {
      return core::refused(fmt::format("the macro takes at most {} arguments", count));
    }
    const size_t first_value = what.is == statement::kind::call_block ? 1 : 0;
    const size_t defaults = what.values.size() - first_value;
    for (size_t i = 0; i < count; ++i) {
      auto& place = inside.slot(what.targets[i].place.slot);
      if (place) continue;
      if (i + defaults < count) {
        place = undefined(fmt::format("parameter '{}' was not provided", core::shown(what.targets[i].word)));
        continue;
      }
      TROUPE_ASSIGN(place, evaluate(what.values[first_value + i + defaults - count]));
    }
    std::string out;
    TROUPE_TRY(run_apart(what.body, out));
    return text(std::move(out));
  }();
  frames_ = before;
  return made;
}

core::result<std::vector<std::pair<value, value>>> evaluator::entries_of(std::string_view what,
                                                                         call_arguments arguments) {
  std::vector<std::pair<value, value>> out;
  if (arguments.positional.size() > 1)
    return core::refused(fmt::format("{} takes one mapping, got {} arguments", what, arguments.positional.size()));
  if (!arguments.positional.empty()) {
    const value& from = arguments.positional[0];
    if (from.is<undefined_value>()) return core::refused(fmt::format("{} of an undefined value", what));
    if (const auto* d = from.as<dictionary_pointer>()) {
      out = (*d)->entries;
    } else {
      TROUPE_ASSIGN(const auto pairs, all_items_of(from, left_));
      for (const auto& pair : pairs) {
        TROUPE_ASSIGN(auto both, all_items_of(pair, left_));
        if (both.size() != 2) return core::refused(fmt::format("{} wants pairs of a key and a value", what));
        out.emplace_back(std::move(both[0]), std::move(both[1]));
      }
    }
  }
  for (auto& [name, x] : arguments.named) out.emplace_back(text(name), std::move(x));
  return out;
}

core::result<value> evaluator::call_global(std::string_view name, call_arguments arguments) {
  if (name == "raise_exception") {
    TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"message"}, 1));
    TROUPE_ASSIGN(const auto message, printed(given[0], left_));
    return core::refused(fmt::format("the template refuses this: {}", message));
  }
  if (name == "strftime_now") {
    TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"format"}, 1));
    TROUPE_ASSIGN(const auto format, text_argument(name, given[0]));
    calendar_time now = local_time();
    if (const auto* clock = (*variables_.as<dictionary_pointer>())->find(clock_variable)) {
      TROUPE_ASSIGN(const auto time, text_argument("the variable strftime_now", *clock));
      TROUPE_ASSIGN(now, calendar_time_of(time));
    }
    TROUPE_ASSIGN(auto made, date_text(format, now));
    return text(std::move(made));
  }
  if (name == "range") {
    TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"", "", ""}, 1));
    number_range out;
    TROUPE_ASSIGN(const int64_t first, integer_argument(name, given[0]));
    out.stop = first;
    if (given.has(1)) {
      out.start = first;
      TROUPE_ASSIGN(out.stop, integer_argument(name, given[1]));
    }
    if (given.has(2)) {
      TROUPE_ASSIGN(out.step, integer_argument(name, given[2]));
    }
    if (out.step == 0) return core::refused("the step of range is 0");
    if (range_length(out) > most_range_items)
      return core::fail(core::error_kind::limit, fmt::format("a range of more than {} items", most_range_items));
    return value{out};
  }
  TROUPE_ASSIGN(auto entries, entries_of(name, std::move(arguments)));
  if (name == "dict") return dictionary_of(std::move(entries), left_);
  TROUPE_TRY(left_.take_items(entries.size()));
  auto made = std::make_shared<name_space>();
  name_spaces_.push_back(made);
  for (auto& [key, x] : entries) {
    TROUPE_ASSIGN(auto word, text_argument("the name of an attribute", key));
    if (word.starts_with('_'))
      return core::refused(
          fmt::format("a namespace has no attribute '{}': names may not begin with '_'", core::shown(word)));
    made->attributes.insert_or_assign(std::move(word), std::move(x));
  }
  return value{std::move(made)};
}

}  // namespace troupe::data::templates
