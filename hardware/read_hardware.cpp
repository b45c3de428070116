#include "hardware/read_hardware.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>

#include "config/document/document.hpp"
#include "config/document/scalars.hpp"
#include "config/keys/key_table.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::hardware {
namespace {

using config::node;
using config::node_kind;

/// Largest soft-l1 scale and factor that a file may state: beyond them a file has a misprint.
constexpr double largest_factor = 100;

/// Reads the entries of one mapping of a file.
class section {
 public:
  section(const node& of, std::string file, std::string where)
      : of_(&of), file_(std::move(file)), where_(std::move(where)) {}

  [[nodiscard]] tl::unexpected<core::error> wrong(config::place at, const std::string& what) const {
    return core::refused(fmt::format("{}:{}: {}", file_, at.line, what));
  }
  [[nodiscard]] tl::unexpected<core::error> wrong(const std::string& what) const { return wrong(of_->at, what); }
  /// Returns the dotted name of an entry, for messages.
  [[nodiscard]] std::string full(std::string_view name) const {
    return where_.empty() ? std::string(name) : fmt::format("{}.{}", where_, name);
  }

  /// Refuses an entry that is none of `names`, with the nearest of them.
  [[nodiscard]] core::result<void> only(const std::vector<std::string>& names, std::string_view thing) const {
    if (of_->kind != node_kind::mapping)
      return wrong(
          fmt::format("{}: wanted a mapping, got {}", where_.empty() ? "the file" : where_, config::shown(*of_)));
    for (const auto& e : of_->entries)
      if (std::ranges::find(names, e.name) == names.end())
        return wrong(e.at, fmt::format("{}: unknown {}, the nearest is {}", core::shown(full(e.name)), thing,
                                       nearest_name(e.name, names)));
    return {};
  }

  [[nodiscard]] const node* find(std::string_view name) const { return of_->find(name); }
  [[nodiscard]] const std::vector<config::entry>& entries() const { return of_->entries; }
  [[nodiscard]] section below(std::string_view name) const { return {*of_->find(name), file_, full(name)}; }

  [[nodiscard]] core::result<std::string> text(std::string_view name) const {
    const node* const value = of_->find(name);
    if (value == nullptr) return wrong(fmt::format("{} is missing", full(name)));
    if (!value->is_scalar() || value->text.empty())
      return wrong(value->at, fmt::format("{}: wanted a text, got {}", full(name), config::shown(*value)));
    return value->text;
  }

  /// Returns a finite number from `least` to `most`; the least itself is refused if `above`.
  [[nodiscard]] core::result<double> number(std::string_view name, double least, double most, bool above) const {
    const node* const value = of_->find(name);
    if (value == nullptr) return wrong(fmt::format("{} is missing", full(name)));
    const auto read = config::number_in(*value);
    const double x = read.value_or(absent);
    if (std::isfinite(x) && x >= least && x <= most && !(above && x == least)) return x;
    const auto bound = most < std::numeric_limits<double>::max() ? fmt::format(" and at most {:g}", most) : "";
    return wrong(value->at, fmt::format("{}: wanted a finite number {} {:g}{}, got {}", full(name),
                                        above ? "above" : "of at least", least, bound, config::shown(*value)));
  }

  [[nodiscard]] core::result<std::vector<std::string>> texts(std::string_view name) const {
    std::vector<std::string> out;
    const node* const value = of_->find(name);
    if (value == nullptr) return out;
    if (value->kind != node_kind::sequence)
      return wrong(value->at, fmt::format("{}: wanted a list, got {}", full(name), config::shown(*value)));
    for (const auto& item : value->items) {
      if (!item->is_scalar())
        return wrong(item->at, fmt::format("{}: wanted a text, got {}", full(name), config::shown(*item)));
      out.push_back(item->text);
    }
    return out;
  }

 private:
  const node* of_;
  std::string file_, where_;
};

constexpr double unbounded = std::numeric_limits<double>::max();

/// Refuses a constant in another unit than the one in which the formulas read it.
core::result<void> same_unit(const section& of, std::string_view unit) {
  TROUPE_ASSIGN(const auto given, of.text("unit"));
  if (given == unit) return {};
  return of.wrong(fmt::format("{}: wanted {}, got {}", of.full("unit"), unit, core::shown(given)));
}

core::result<given_constant> read_constant(const section& of, const constant_row& row) {
  TROUPE_TRY(of.only({"value", "unit", "meaning", "source", "expected", "log_sigma"}, "key"));
  given_constant out{.row = &row, .value = 0, .meaning = {}, .source = {}};
  TROUPE_ASSIGN(out.value, of.number("value", row.least, row.most, row.divides && row.least == 0));
  TROUPE_TRY(same_unit(of, row.unit));
  TROUPE_ASSIGN(out.meaning, of.text("meaning"));
  TROUPE_ASSIGN(out.source, of.text("source"));
  if (of.find("expected") != nullptr || of.find("log_sigma") != nullptr) {
    TROUPE_ASSIGN(out.expected, of.number("expected", 0, unbounded, true));
    TROUPE_ASSIGN(out.log_sigma, of.number("log_sigma", 0, largest_factor, true));
    if (out.value == 0) return of.wrong(fmt::format("{}: a fitted constant cannot be 0", of.full("value")));
  }
  return out;
}

core::result<given_rate> read_rate(const section& of, const card_row& row) {
  TROUPE_TRY(of.only({"value", "unit", "meaning", "source"}, "key"));
  given_rate out{.row = &row, .value = 0, .meaning = {}, .source = {}};
  TROUPE_ASSIGN(out.value, of.number("value", 0, unbounded, true));
  TROUPE_TRY(same_unit(of, row.unit));
  TROUPE_ASSIGN(out.meaning, of.text("meaning"));
  TROUPE_ASSIGN(out.source, of.text("source"));
  return out;
}

core::result<std::vector<given_rate>> read_rates(const section& of) {
  std::vector<std::string> names;
  for (const auto& row : card_rows()) names.emplace_back(row.name);
  TROUPE_TRY(of.only(names, "constant of a card"));
  std::vector<given_rate> out;
  for (const auto& row : card_rows())
    if (of.find(row.name) != nullptr) {
      TROUPE_ASSIGN(auto rate, read_rate(of.below(row.name), row));
      out.push_back(std::move(rate));
    }
  return out;
}

/// Reads the model of one quantity into `out`, which holds what is inherited.
core::result<void> read_model(const section& of, quantity_model& out) {
  TROUPE_TRY(of.only({"interval", "shapes", "residual_scale", "constants"}, "key"));
  TROUPE_ASSIGN(auto groups, of.texts("shapes"));
  if (!groups.empty()) out.groups = std::move(groups);
  if (of.find("interval") != nullptr) {
    const auto interval = of.below("interval");
    TROUPE_TRY(interval.only({"fitted_shapes", "other_shapes"}, "key"));
    TROUPE_ASSIGN(out.fitted_factor, interval.number("fitted_shapes", 1, largest_factor, false));
    TROUPE_ASSIGN(out.other_factor, interval.number("other_shapes", 1, largest_factor, false));
  }
  if (of.find("residual_scale") != nullptr) {
    TROUPE_ASSIGN(out.residual_scale, of.number("residual_scale", 0, largest_factor, true));
  }
  if (of.find("constants") == nullptr) return {};
  const auto all = of.below("constants");
  std::vector<std::string> names;
  for (const auto& row : constant_rows())
    if (row.is_for(out.of)) names.emplace_back(row.name);
  TROUPE_TRY(all.only(names, fmt::format("constant of {}", name_of(out.of))));
  for (const auto& e : all.entries()) {
    TROUPE_ASSIGN(const auto one, read_constant(all.below(e.name), *find_constant(e.name)));
    out.put(one);
  }
  return {};
}

/// Refuses a model without a constant that every price of its quantity needs.
core::result<void> is_complete(const section& of, const quantity_model& model) {
  const auto missing = [&](std::string_view name) {
    const auto own = of.find(name_of(model.of)) != nullptr ? of.below(name_of(model.of)) : of;
    return own.wrong(fmt::format("{}.constants.{} is missing", name_of(model.of), name));
  };
  for (const auto& row : constant_rows())
    if (row.is_needed_for(model.of) && std::isnan(model.values.*row.field)) return missing(row.name);
  if (model.of == quantity::step && !(model.values.ring_in_step_factor > 0) && std::isnan(model.values.nvlink_share))
    return missing("nvlink_share");
  return {};
}

core::result<card> read_card(const section& of, const std::string& name) {
  TROUPE_TRY(of.only({"kind", "named", "constants"}, "key"));
  card out;
  out.name = name;
  TROUPE_ASSIGN(out.named, of.texts("named"));
  if (of.find("constants") == nullptr) return of.wrong("constants is missing");
  TROUPE_ASSIGN(const auto rates, read_rates(of.below("constants")));
  for (const auto& rate : rates) out.*rate.row->field = rate.value;
  for (const auto& row : card_rows())
    if (row.needed && std::isnan(out.*row.field)) return of.wrong(fmt::format("constants.{} is missing", row.name));
  return out;
}

/// Multiplies inherited constants by the factors of a file. The factor is how another stack's constants of both cards
/// differ, or how the cards' measured rates do.
core::result<void> scale_constants(const section& scales, stack& of) {
  std::vector<std::string> names;
  for (const auto& model : of.models)
    for (const auto& c : model.given) names.emplace_back(c.row->name);
  TROUPE_TRY(scales.only(names, "inherited constant"));
  for (const auto& e : scales.entries()) {
    const auto one = scales.below(e.name);
    TROUPE_TRY(one.only({"factor", "source"}, "key"));
    TROUPE_ASSIGN(const double factor, one.number("factor", 0, largest_factor, true));
    TROUPE_ASSIGN(const auto source, one.text("source"));
    for (auto& model : of.models)
      for (auto scaled : std::vector<given_constant>(model.given)) {
        if (scaled.row->name != e.name) continue;
        scaled.value *= factor;
        if (scaled.value > scaled.row->most)
          return one.wrong(
              fmt::format("{}: {} x {:g} is more than {:g}", scales.full(e.name), e.name, factor, scaled.row->most));
        scaled.source += fmt::format(", x {:g}: {}", factor, source);
        model.put(scaled);
      }
  }
  return {};
}

core::result<std::vector<fitted_range>> read_ranges(const section& of) {
  const std::vector<std::string> names(std::begin(fitted_sizes), std::end(fitted_sizes));
  TROUPE_TRY(of.only(names, "size"));
  std::vector<fitted_range> out;
  for (const auto name : fitted_sizes) {
    if (of.find(name) == nullptr) continue;
    TROUPE_ASSIGN(const auto texts, of.texts(name));
    fitted_range one{.size = std::string(name)};
    if (texts.size() == 2) {
      one.least = core::number_of<double>(texts[0]).value_or(0);
      one.most = core::number_of<double>(texts[1]).value_or(0);
    }
    if (!(one.least > 0 && one.most >= one.least && std::isfinite(one.most)))
      return of.wrong(of.find(name)->at, fmt::format("{}: wanted two numbers above 0, the least and the most, got {}",
                                                     of.full(name), config::shown(*of.find(name))));
    out.push_back(std::move(one));
  }
  return out;
}

core::result<stack> read_stack(const section& of, const std::string& name, const std::string& file,
                               const hardware_lookup& lookup) {
  std::vector<std::string> keys{"kind", "software",    "card",     "tables",
                                "runs", "fitted_from", "inherits", "card_constants"};
  for (const auto q : all_quantities) keys.emplace_back(name_of(q));
  TROUPE_TRY(of.only(keys, "key"));
  stack out;
  const auto at = [&](const char* key, const core::error& e) { return of.wrong(of.find(key)->at, e.text); };
  if (of.find("inherits") != nullptr) {
    const auto inherited = of.below("inherits");
    TROUPE_TRY(inherited.only({"stack", "because", "scales"}, "key"));
    TROUPE_ASSIGN(const auto from, inherited.text("stack"));
    auto parent = lookup.find_stack(from);
    if (!parent) return at("inherits", parent.error());
    out = *std::move(parent);
    out.inherited_from = from;
    TROUPE_ASSIGN(out.because, inherited.text("because"));
    for (auto& model : out.models) {  // errors were measured on another card, so they are not inherited
      model.fitted_factor = model.other_factor = absent;
      model.groups.clear();
    }
    out.rates.clear();
    if (inherited.find("scales") != nullptr) TROUPE_TRY(scale_constants(inherited.below("scales"), out));
  }
  out.name = name;
  out.file = file;
  TROUPE_ASSIGN(out.software, of.text("software"));
  TROUPE_ASSIGN(out.card_name, of.text("card"));
  TROUPE_ASSIGN(out.tables, of.texts("tables"));
  auto on = lookup.find_card(out.card_name);
  if (!on) return at("card", on.error());
  out.on = *std::move(on);
  if (of.find("card_constants") != nullptr) {
    TROUPE_ASSIGN(out.rates, read_rates(of.below("card_constants")));
    for (const auto& rate : out.rates) out.on.*rate.row->field = rate.value;
  }
  if (of.find("runs") != nullptr) {
    const auto runs = of.below("runs");
    TROUPE_TRY(runs.only({"recompute", "source"}, "key"));
    TROUPE_ASSIGN(const double recompute, runs.number("recompute", 0, 1, false));
    if (recompute != 0 && recompute != 1)
      return runs.wrong(fmt::format("runs.recompute: wanted 0 or 1, got {:g}", recompute));
    out.recompute = static_cast<int>(recompute);
    TROUPE_ASSIGN(out.recompute_source, runs.text("source"));
  }
  if (of.find("fitted_from") != nullptr) {
    TROUPE_ASSIGN(out.fitted_from, read_ranges(of.below("fitted_from")));
  }
  for (const auto q : all_quantities) {
    if (of.find(name_of(q)) == nullptr) continue;
    auto model = std::ranges::find(out.models, q, &quantity_model::of);
    if (model == out.models.end()) {
      out.models.emplace_back().of = q;
      model = out.models.end() - 1;
    }
    TROUPE_TRY(read_model(of.below(name_of(q)), *model));
  }
  if (out.models.empty()) return of.wrong("wanted a section step, memory, product, attention or all_reduce, got none");
  for (const auto& model : out.models) TROUPE_TRY(is_complete(of, model));
  return out;
}

}  // namespace

void quantity_model::put(const given_constant& one) {
  const auto at = std::ranges::find(given, one.row, &given_constant::row);
  if (at == given.end())
    given.push_back(one);
  else
    *at = one;
  values.*one.row->field = one.value;
}

const quantity_model* stack::find(quantity q) const {
  const auto at = std::ranges::find(models, q, &quantity_model::of);
  return at == models.end() ? nullptr : &*at;
}

std::string nearest_name(std::string_view wanted, const std::vector<std::string>& names) {
  constexpr size_t most_compared = 80;
  const auto near = std::ranges::min_element(
      names, {}, [&](const std::string& name) { return config::edits(wanted.substr(0, most_compared), name); });
  return near == names.end() ? std::string() : *near;
}

core::result<std::variant<card, stack>> read_hardware(std::string_view text, const std::string& name,
                                                      const std::string& file, const hardware_lookup& lookup) {
  const auto read = config::read_yaml(text, 0);
  if (!read.problems.empty()) {
    const auto& first = read.problems.front();
    return core::refused(
        fmt::format("{}:{}: {}{}{}", file, first.at.line, first.key, first.key.empty() ? "" : ": ", first.text));
  }
  const section whole(*read.root, file, "");
  TROUPE_ASSIGN(const auto kind, whole.text("kind"));
  if (kind == "card") {
    TROUPE_ASSIGN(auto out, read_card(whole, name));
    return std::variant<card, stack>(std::move(out));
  }
  if (kind != "stack")
    return whole.wrong(whole.find("kind")->at, fmt::format("kind: wanted card or stack, got {}", core::shown(kind)));
  TROUPE_ASSIGN(auto out, read_stack(whole, name, file, lookup));
  return std::variant<card, stack>(std::move(out));
}

}  // namespace troupe::hardware
