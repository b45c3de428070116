// Reads the values of one field in one batch of an Arrow stream, as JSON: numbers, texts, lists, structures. Owns the
// layout of such values in buffers; leaves messages and rows to arrow_rows.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "data/formats/columns/arrow_batch.hpp"
#include "data/formats/columns/arrow_schema.hpp"
#include "data/formats/columns/arrow_views.hpp"
#include "data/formats/columns/column_buffer.hpp"

namespace troupe::data {

/// Bytes that values may still have: of one row, and of all rows that are read.
struct value_budget {
  uint64_t row = 0;
  uint64_t all = 0;
};

/// Values of a field and its members in a batch. Errors name neither file nor message.
class arrow_array {
 public:
  /// Opens the values of `field`, whose batch and description must outlive the array. Errors (bad_input): buffers that
  /// are too short for the values, or cannot be read.
  static core::result<arrow_array> open(const arrow_batch& batch, const arrow_field& field);

  /// Returns value number `i`; null for none. The bytes of the value are subtracted from `left`. Errors: bad_input for
  /// a value outside its buffers and for a text that is not UTF-8; limit.
  core::result<nlohmann::ordered_json> value(uint64_t i, value_budget& left);

 private:
  core::result<void> open_buffers(const arrow_batch& batch, const arrow_field& field);
  core::result<bool> is_null(uint64_t i);
  core::result<nlohmann::ordered_json> number(uint64_t i);
  core::result<nlohmann::ordered_json> text(uint64_t i, value_budget& left);
  core::result<nlohmann::ordered_json> list(uint64_t i, value_budget& left);

  const arrow_field* field_ = nullptr;
  uint64_t values_ = 0;
  column_buffer validity_, numbers_, bytes_;  ///< numbers: values or offsets; bytes: texts
  std::optional<viewed_texts> views_;
  std::vector<arrow_array> members_;
};

}  // namespace troupe::data
