// How one matrix will be stored, for those who choose its values before it is: its grids, what is read back of values,
// and the bytes of codes that were chosen. One class for each family of formats; files are the exporters' business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/compressed/stored_weight.hpp"
#include "checkpoint/gguf/tensor_type.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The values that one group of a row may have: scale * q + offset for whole q in [low, high].
struct affine_grid {
  float scale = 1, offset = 0;
  int32_t low = 0, high = 0;
};

/// The bytes of one tensor of a matrix.
struct stored_bytes {
  weight_part part = weight_part::codes;
  std::vector<std::byte> bytes;
};

/// Of a matrix of `rows` (outputs) x `columns` (inputs).
class stored_form {
 public:
  stored_form(uint64_t rows, uint64_t columns) : rows_(rows), columns_(columns) {}
  stored_form(const stored_form&) = delete;
  stored_form& operator=(const stored_form&) = delete;
  virtual ~stored_form() = default;

  [[nodiscard]] uint64_t rows() const { return rows_; }
  [[nodiscard]] uint64_t columns() const { return columns_; }
  /// "q4_0", "int4": for people.
  [[nodiscard]] virtual std::string name() const = 0;

  /// Whole rows become what is read back of them. `importance`, one for each column or empty, weighs the error where
  /// the format searches. Refused: values that it does not hold.
  [[nodiscard]] virtual core::result<void> round(std::span<float> values, std::span<const float> importance) const = 0;

  /// Columns that share a grid; 0: codes are not chosen one by one (floating-point codes, blocks of blocks).
  [[nodiscard]] virtual uint64_t group() const { return 0; }
  /// The grid for the values of one group, as rounding to nearest would have it.
  [[nodiscard]] virtual core::result<affine_grid> fit(std::span<const float> group) const;
  /// The grid around zero of this scale, as the format holds it; nothing where it has none.
  [[nodiscard]] virtual std::optional<affine_grid> grid_with(float /*scale*/) const { return std::nullopt; }
  /// The bytes of the matrix: grids of each row's groups, and q of each element.
  [[nodiscard]] virtual core::result<std::vector<stored_bytes>> pack(std::span<const affine_grid> grids,
                                                                     std::span<const int16_t> q) const;

 private:
  uint64_t rows_, columns_;
};

std::shared_ptr<const stored_form> form_of(const compressed_matrix& m);
/// Null for types without blocks.
std::shared_ptr<const stored_form> form_of(gguf_type type, uint64_t rows, uint64_t columns);

}  // namespace troupe::checkpoint
