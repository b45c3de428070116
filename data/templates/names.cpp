#include "data/templates/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "data/templates/lexer.hpp"

namespace troupe::data::templates {
namespace {

/// Functions and objects of Jinja that are refused.
constexpr std::array<std::string_view, 4> refused_names{"lipsum", "cycler", "joiner", "self"};

using load_kind = variable_load::kind;
using statement_form = statement::kind;

/// The names of one frame, as Jinja collects them in the order of the source.
struct frame_names {
  const frame_names* outer = nullptr;
  uint32_t depth = 0;
  std::map<std::string, load_kind> loads{};  ///< every name of the frame
  std::set<std::string> stores{};

  [[nodiscard]] std::optional<variable_place> find(const std::string& name) const {
    for (const auto* frame = this; frame != nullptr; frame = frame->outer)
      if (const auto at = frame->loads.find(name); at != frame->loads.end())
        return variable_place{frame->depth, static_cast<uint32_t>(std::distance(frame->loads.begin(), at))};
    return std::nullopt;
  }
  [[nodiscard]] bool has_outside(const std::string& name) const {
    return outer != nullptr && outer->find(name).has_value();
  }

  void declare(const std::string& name) {
    stores.insert(name);
    loads[name] = load_kind::parameter;
  }
  void store(const std::string& name) {
    stores.insert(name);
    loads.try_emplace(name, has_outside(name) ? load_kind::alias : load_kind::undefined);
  }
  void load(const std::string& name) {
    if (!find(name)) loads[name] = load_kind::resolve;
  }

  /// Joins the names of the branches of an `if`, which were collected apart. A name that only branches assign has the
  /// value from outside until one of them runs.
  void join(const std::vector<frame_names>& branches) {
    std::set<std::string> added;
    for (const auto& one : branches)
      for (const auto& name : one.stores)
        if (!stores.contains(name)) added.insert(name);
    for (const auto& one : branches) {
      for (const auto& [name, kind] : one.loads) loads[name] = kind;
      stores.insert(one.stores.begin(), one.stores.end());
    }
    for (const auto& name : added) loads[name] = has_outside(name) ? load_kind::alias : load_kind::resolve;
  }
};

void collect(frame_names& to, const expression& from) {
  if (from.is == expression::kind::name) to.load(from.word);
  for (const auto& part : from.parts) collect(to, part);
}

void collect_target(frame_names& to, const expression& target, bool is_parameter) {
  if (target.is == expression::kind::attribute) {
    to.load(target.parts[0].word);
  } else if (target.is == expression::kind::name) {
    is_parameter ? to.declare(target.word) : to.store(target.word);
  } else {
    for (const auto& part : target.parts) collect_target(to, part, is_parameter);
  }
}

void collect(frame_names& to, const std::vector<statement>& from);

/// Collects the names that a statement uses in the frame around it. The frames that the statement makes itself are left
/// out.
void collect(frame_names& to, const statement& from) {
  switch (from.is) {
    case statement_form::text:
    case statement_form::generation:
    case statement_form::leave:
    case statement_form::next:
      return;
    case statement_form::print:
    case statement_form::with:
      for (const auto& one : from.values) collect(to, one);
      return;
    case statement_form::loop:
    case statement_form::call_block:
    case statement_form::filter_block:
      collect(to, from.values[0]);
      return;
    case statement_form::set:
      collect(to, from.values[0]);
      collect_target(to, from.targets[0], false);
      return;
    case statement_form::set_block:
      collect_target(to, from.targets[0], false);
      return;
    case statement_form::macro:
      to.store(from.word);
      return;
    case statement_form::branch:
      break;
  }
  collect(to, from.values[0]);
  std::vector<frame_names> branches(3, to);
  collect(branches[0], from.body);
  for (const auto& one : from.others) collect(branches[1], one);
  collect(branches[2], from.otherwise);
  to.join(branches);
}

void collect(frame_names& to, const std::vector<statement>& from) {
  for (const auto& one : from) collect(to, one);
}

/// Finds which of some special names a body reads without assigning them before.
class special_names {
 public:
  explicit special_names(std::set<std::string> names) : names_(std::move(names)) {}

  void visit(const std::vector<statement>& body) {
    for (const auto& one : body) visit(one);
  }
  [[nodiscard]] bool reads(const std::string& name) const { return read_.contains(name); }

 private:
  void visit(const expression& one) {
    if (one.is == expression::kind::name && names_.contains(one.word)) read_.insert(one.word);
    for (const auto& part : one.parts) visit(part);
  }
  void visit(const std::vector<expression>& all) {
    for (const auto& one : all) visit(one);
  }
  void visit_target(const expression& one) {
    if (one.is == expression::kind::name) names_.erase(one.word);
    if (one.is == expression::kind::tuple)
      for (const auto& part : one.parts) visit_target(part);
  }

  void visit(const statement& one) {
    if (one.is == statement_form::branch) {
      visit(one.values);
      visit(one.body);
      visit(one.others);
      visit(one.otherwise);
    } else if (one.is == statement_form::loop) {
      visit_target(one.targets[0]);
      visit(one.values[0]);
      visit(one.body);
      visit(one.otherwise);
      if (one.values.size() > 1) visit(one.values[1]);
    } else if (one.is == statement_form::filter_block) {
      visit(one.body);
      visit(one.values);
    } else if (one.is == statement_form::call_block) {
      visit(one.values[0]);
      for (const auto& target : one.targets) visit_target(target);
      for (size_t i = 1; i < one.values.size(); ++i) visit(one.values[i]);
      visit(one.body);
    } else {
      for (const auto& target : one.targets) visit_target(target);
      visit(one.values);
      visit(one.body);
    }
  }

  std::set<std::string> names_, read_{};
};

/// Places the variables of one template.
class placer {
 public:
  explicit placer(std::string_view name) : name_(name) {}

  core::result<void> place(syntax_tree& tree) {
    frame_names root;
    collect(root, tree.body);
    TROUPE_TRY(place(tree.body, root));
    tree.frame = planned(root);
    return {};
  }

 private:
  core::result<void> place(expression& one, const frame_names& in) {
    if (one.is == expression::kind::name) {
      if (std::ranges::find(refused_names, one.word) != refused_names.end())
        return core::refused(located(name_, one.at, fmt::format("the name '{}' is not supported", one.word)));
      const auto at = in.find(one.word);
      if (!at)
        return core::refused(
            located(name_, one.at, fmt::format("the name '{}' is not known here", core::shown(one.word))));
      one.place = *at;
    }
    for (auto& part : one.parts) TROUPE_TRY(place(part, in));
    return {};
  }
  core::result<void> place(std::vector<expression>& all, const frame_names& in) {
    for (auto& one : all) TROUPE_TRY(place(one, in));
    return {};
  }
  core::result<void> place(std::vector<statement>& all, const frame_names& in) {
    for (auto& one : all) TROUPE_TRY(place(one, in));
    return {};
  }

  static frame_names inside(const frame_names& in) { return {&in, in.depth + 1, {}, {}}; }

  static frame_plan planned(const frame_names& names) {
    frame_plan out;
    out.depth = names.depth;
    for (const auto& [name, kind] : names.loads) {
      variable_load one{kind, name, static_cast<uint32_t>(out.loads.size()), {}};
      if (kind == load_kind::alias) one.outer = names.outer->find(name).value_or(variable_place{});
      out.loads.push_back(std::move(one));
    }
    return out;
  }

  core::result<void> place(statement& one, const frame_names& in) {
    switch (one.is) {
      case statement_form::text:
      case statement_form::leave:
      case statement_form::next:
        return {};
      case statement_form::print:
        return place(one.values, in);
      case statement_form::set:
        TROUPE_TRY(place(one.values, in));
        return place(one.targets, in);
      case statement_form::branch:
        TROUPE_TRY(place(one.values, in));
        TROUPE_TRY(place(one.body, in));
        TROUPE_TRY(place(one.others, in));
        return place(one.otherwise, in);
      case statement_form::loop:
        return place_loop(one, in);
      case statement_form::macro:
      case statement_form::call_block:
        return place_function(one, in);
      case statement_form::set_block:
      case statement_form::filter_block:
      case statement_form::with:
      case statement_form::generation:
        break;
    }
    return place_block(one, in);
  }

  core::result<void> place_block(statement& one, const frame_names& in) {
    auto names = inside(in);
    if (one.is == statement_form::with)
      for (const auto& target : one.targets) collect_target(names, target, true);
    collect(names, one.body);
    if (one.is == statement_form::filter_block) collect(names, one.values[0]);
    TROUPE_TRY(place(one.targets, one.is == statement_form::with ? names : in));
    TROUPE_TRY(place(one.values, one.is == statement_form::with ? in : names));
    TROUPE_TRY(place(one.body, names));
    one.frame = planned(names);
    return {};
  }

  /// Fails if a statement of a loop, or a loop's own target, assigns `loop`.
  core::result<void> check_no_loop(const expression& target) const {
    if (target.is == expression::kind::name && target.word == "loop")
      return core::refused(located(name_, target.at, "'loop' cannot be assigned inside of a loop"));
    if (target.is == expression::kind::tuple)
      for (const auto& part : target.parts) TROUPE_TRY(check_no_loop(part));
    return {};
  }
  core::result<void> check_no_loop(const std::vector<statement>& body) const {
    for (const auto& one : body) TROUPE_TRY(check_no_loop(one));
    return {};
  }
  core::result<void> check_no_loop(const statement& one) const {
    if (one.is == statement_form::loop || one.is == statement_form::set || one.is == statement_form::set_block)
      TROUPE_TRY(check_no_loop(one.targets[0]));
    TROUPE_TRY(check_no_loop(one.body));
    TROUPE_TRY(check_no_loop(one.others));
    return check_no_loop(one.otherwise);
  }

  core::result<void> place_loop(statement& one, const frame_names& in) {
    TROUPE_TRY(check_no_loop(one));
    special_names special({"loop"});
    special.visit(one.body);
    auto names = inside(in);
    one.uses_loop = special.reads("loop");
    if (one.uses_loop) names.declare("loop");
    collect_target(names, one.targets[0], true);
    collect(names, one.body);
    TROUPE_TRY(place(one.values[0], in));
    TROUPE_TRY(place(one.targets[0], names));
    TROUPE_TRY(place(one.body, names));
    if (one.uses_loop) one.loop = names.find("loop").value_or(variable_place{});
    one.frame = planned(names);
    if (one.values.size() > 1) {
      auto test = inside(in);
      collect_target(test, one.targets[1], true);
      collect(test, one.values[1]);
      TROUPE_TRY(place(one.targets[1], test));
      TROUPE_TRY(place(one.values[1], test));
      one.test_frame = planned(test);
    }
    auto otherwise = inside(in);
    collect(otherwise, one.otherwise);
    TROUPE_TRY(place(one.otherwise, otherwise));
    one.else_frame = planned(otherwise);
    return {};
  }

  /// Collects the parameters, defaults and body of a macro or of a block that is called.
  static void collect_function(frame_names& names, const statement& one, size_t first_default) {
    for (const auto& target : one.targets) collect_target(names, target, true);
    for (size_t i = first_default; i < one.values.size(); ++i) collect(names, one.values[i]);
    collect(names, one.body);
  }

  core::result<void> place_function(statement& one, const frame_names& in) {
    const size_t first_default = one.is == statement_form::call_block ? 1 : 0;
    auto names = inside(in);
    collect_function(names, one, first_default);
    special_names special({"caller", "kwargs", "varargs"});
    special.visit(one.body);
    const auto is_parameter = [&](const std::string& name) {
      for (const auto& target : one.targets)
        if (target.word == name) return true;
      return false;
    };
    if (special.reads("caller") && is_parameter("caller"))
      return core::refused(located(name_, one.at, "a parameter named 'caller' is not supported"));
    for (const char* name : {"caller", "kwargs", "varargs"})
      if (special.reads(name) && !is_parameter(name)) names.declare(name);
    collect_function(names, one, first_default);
    const auto slot_of = [&](const char* name) -> std::optional<uint32_t> {
      if (!special.reads(name) || is_parameter(name)) return std::nullopt;
      return names.find(name).value_or(variable_place{}).slot;
    };
    one.caller = slot_of("caller");
    one.keywords = slot_of("kwargs");
    one.positional = slot_of("varargs");
    TROUPE_TRY(place(one.targets, names));
    for (size_t i = 0; i < one.values.size(); ++i) TROUPE_TRY(place(one.values[i], i < first_default ? in : names));
    TROUPE_TRY(place(one.body, names));
    if (one.is == statement_form::macro) one.macro_place = in.find(one.word).value_or(variable_place{});
    one.frame = planned(names);
    return {};
  }

  std::string_view name_;
};

}  // namespace

core::result<void> place_variables(std::string_view name, syntax_tree& tree) { return placer(name).place(tree); }

}  // namespace troupe::data::templates
