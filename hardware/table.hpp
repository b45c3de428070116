// Reads tables of published measurements as shapes with their measured values. A table's form is recognised by its
// columns; no name of a file or a model has a meaning. The forms are in table_forms.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "hardware/csv.hpp"
#include "hardware/stack.hpp"
#include "hardware/workload.hpp"

namespace troupe::hardware {

/// One measured value of a row. A row with a time and a peak of memory makes two samples.
struct sample {
  size_t line = 0;         ///< line in the file
  size_t stack_index = 0;  ///< the stack that prices it, in the list given to read_samples()
  quantity of = quantity::step;
  shape what;
  double measured = 0;   ///< in the quantity's unit
  bool ran_out = false;  ///< the run ended for lack of memory: there is no measured value
};

/// Reads the cells of one row. Reading goes on after an error; problem() then has the first one.
class row_reader {
 public:
  row_reader(const csv_file& file, const csv_row& row) : file_(&file), row_(&row) {}

  [[nodiscard]] bool has(std::string_view column) const;  ///< true if the table has the column
  std::string_view text(std::string_view column);
  double positive(std::string_view column);  ///< a finite number above 0
  double count(std::string_view column);     ///< an integer of at least 1
  bool flag(std::string_view column);        ///< 0 or 1
  /// Records that a value of a column is refused; `wanted` says which values are not.
  void refuse(std::string_view column, std::string_view wanted);
  /// Records another reason why the row is refused.
  void fail_with(const std::string& why);
  [[nodiscard]] size_t line() const { return row_->line; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const csv_file* file_;
  const csv_row* row_;
  std::string problem_;
};

/// A form of table: its columns, and how a row is read.
struct table_form {
  std::string_view name;
  std::vector<std::string_view> columns;   ///< needed
  std::vector<std::string_view> optional;  ///< known, and not needed
  bool repeats = false;                    ///< names may repeat; the first column of a name is read
  /// Appends the samples of a row that `by` prices, at least one; `sample::line` and `stack_index` are set by the
  /// caller. `shared` is the result of `share`, or 0.
  std::function<void(row_reader& row, double shared, const stack& by, std::vector<sample>& out)> read;
  /// Returns a number that all rows share and only the whole table shows; empty for most forms.
  std::function<double(const csv_file& all)> share = {};
};

std::span<const table_form> table_forms();

/// Returns the form whose columns a table has. Refused if there is none: names what is missing in, and unknown to, the
/// nearest form.
core::result<const table_form*> form_of(const csv_file& table);

/// Rows of a column `device` that names the card of no given stack.
enum class other_cards : unsigned char { refused, left_out };

struct read_table {
  std::vector<sample> samples;
  size_t rows = 0, left_out = 0;  ///< rows that were read, and rows of other cards
};

/// Returns the samples of all rows. If the table has a column `device`, each row is priced by the stack whose card has
/// that name; else one stack is wanted. Refused with its line: a row that cannot be read, or that no stack can price.
core::result<read_table> read_samples(const csv_file& table, const table_form& form, std::span<const stack> stacks,
                                      other_cards others);

}  // namespace troupe::hardware
