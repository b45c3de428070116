#include "hardware/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/number.hpp"
#include "core/text.hpp"
#include "hardware/price.hpp"
#include "hardware/read_hardware.hpp"

namespace troupe::hardware {
namespace {

bool contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != std::ranges::end(names);
}

/// The difference between a table's columns and those of a form.
struct column_difference {
  std::vector<std::string> missing, unknown;
  [[nodiscard]] size_t size() const { return missing.size() + unknown.size(); }
};

column_difference difference_of(const csv_file& table, const table_form& form) {
  column_difference out;
  for (const auto name : form.columns)
    if (!contains(table.columns, name)) out.missing.emplace_back(name);
  for (const auto& name : table.columns)
    if (!contains(form.columns, name) && !contains(form.optional, name)) out.unknown.push_back(name);
  return out;
}

/// Returns the first name that occurs twice; empty if there is none.
std::string repeated_name(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (names[i] == names[j]) return names[i];
  return {};
}

/// Returns the index of the stack that prices a row; the number of stacks if the row is left out.
core::result<size_t> stack_of(row_reader& row, const csv_file& table, std::span<const stack> stacks,
                              other_cards others) {
  if (!row.has("device")) {
    if (stacks.size() == 1) return size_t{0};
    return core::refused(
        fmt::format("{}: the table has no column device, so one stack is wanted, got {}", table.file, stacks.size()));
  }
  const auto device = row.text("device");
  for (size_t i = 0; i < stacks.size(); ++i)
    if (contains(stacks[i].on.named, device)) return i;
  if (others == other_cards::left_out) return stacks.size();
  std::vector<std::string> names;
  for (const auto& s : stacks)
    for (const auto& name : s.on.named) names.push_back(name);
  return core::refused(fmt::format("{}:{}: device: wanted {}, a card of the stacks that --hardware names, got {}",
                                   table.file, row.line(), fmt::join(names, " or "), core::shown(device)));
}

}  // namespace

bool row_reader::has(std::string_view column) const { return contains(file_->columns, column); }

std::string_view row_reader::text(std::string_view column) {
  const auto at = std::ranges::find(file_->columns, column);
  return at == file_->columns.end() ? std::string_view()
                                    : std::string_view(row_->cells[size_t(at - file_->columns.begin())]);
}

double row_reader::positive(std::string_view column) {
  const auto x = core::number_of<double>(text(column)).value_or(0);
  if (std::isfinite(x) && x > 0) return x;
  refuse(column, "a finite number above 0");
  return 1;
}

double row_reader::count(std::string_view column) {
  constexpr double most = 1e12;
  const double x = core::number_of<double>(text(column)).value_or(0);
  if (x >= 1 && x <= most && x == std::floor(x)) return x;
  refuse(column, "an integer of at least 1");
  return 1;
}

bool row_reader::flag(std::string_view column) {
  const auto cell = text(column);
  if (cell != "0" && cell != "1") refuse(column, "0 or 1");
  return cell == "1";
}

void row_reader::refuse(std::string_view column, std::string_view wanted) {
  const auto got = text(column);
  fail_with(fmt::format("{}: wanted {}, got {}", column, wanted, got.empty() ? "nothing" : core::shown(got)));
}

void row_reader::fail_with(const std::string& why) {
  if (problem_.empty()) problem_ = why;
}

core::result<const table_form*> form_of(const csv_file& table) {
  const table_form* nearest = nullptr;
  column_difference least;
  for (const auto& form : table_forms()) {
    auto one = difference_of(table, form);
    if (nearest != nullptr && one.size() >= least.size()) continue;
    nearest = &form;
    least = std::move(one);
  }
  if (least.size() > 0) {
    std::string why;
    for (const auto& name : least.missing) why += fmt::format("; column {} is missing", core::in_quotes(name));
    for (const auto& name : least.unknown) {
      std::vector<std::string> known;
      for (const auto column : nearest->columns) known.emplace_back(column);
      for (const auto column : nearest->optional) known.emplace_back(column);
      why += fmt::format("; unknown column {}, the nearest is {}", core::in_quotes(core::shown(name)),
                         core::in_quotes(nearest_name(name, known)));
    }
    return core::refused(fmt::format("{}:1: the columns are those of no known form of table, the nearest is {}{}",
                                     table.file, nearest->name, why));
  }
  if (const auto twice = repeated_name(table.columns); !nearest->repeats && !twice.empty())
    return core::refused(fmt::format("{}:1: column {} occurs twice", table.file, core::in_quotes(twice)));
  return nearest;
}

core::result<read_table> read_samples(const csv_file& table, const table_form& form, std::span<const stack> stacks,
                                      other_cards others) {
  read_table out;
  const double shared = form.share ? form.share(table) : 0;
  for (const auto& cells : table.rows) {
    row_reader row(table, cells);
    TROUPE_ASSIGN(const size_t index, stack_of(row, table, stacks, others));
    if (index == stacks.size()) {
      ++out.left_out;
      continue;
    }
    const stack& by = stacks[index];
    std::vector<sample> read;
    form.read(row, shared, by, read);
    const auto at_line = [&](const std::string& why) {
      return core::refused(fmt::format("{}:{}: {}", table.file, row.line(), why));
    };
    if (!row.problem().empty()) return at_line(row.problem());
    // A stack may have no model of memory: its table's peaks are then left out. A row without any price is refused.
    const auto first = read.front().of;
    std::erase_if(read, [&](const sample& s) { return by.find(s.of) == nullptr; });
    if (read.empty()) return at_line(fmt::format("the stack {} has no constants for {}", by.name, name_of(first)));
    for (auto& one : read) {
      if (const auto ok = needs_of(one.of, one.what, by.on, by.find(one.of)->values); !ok)
        return at_line(fmt::format("{}: {}", by.name, ok.error().text));
      one.line = row.line();
      one.stack_index = index;
      out.samples.push_back(std::move(one));
    }
    ++out.rows;
  }
  if (out.samples.empty())
    return core::refused(
        fmt::format("{}: all {} rows are of other cards than {}", table.file, out.left_out, stacks.front().on.name));
  return out;
}

}  // namespace troupe::hardware
