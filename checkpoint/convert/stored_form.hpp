// How an export will store one matrix, for compression methods that choose the matrix's values before the export: the
// grids of its groups, the values that are read back, and the bytes of chosen codes. One class for each family of
// formats; leaves files to the exporters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/compressed/stored_weight.hpp"
#include "formats/gguf/tensor_type.hpp"

namespace troupe::checkpoint {

/// The values that one group of a row may have: scale * q + offset for integers q in [low, high].
struct affine_grid {
  float scale = 1, offset = 0;
  int32_t low = 0, high = 0;
};

/// One part (codes, scales ...) of a stored matrix, and its bytes.
struct stored_bytes {
  formats::weight_part part = formats::weight_part::codes;
  std::vector<std::byte> bytes;
};

/// Converts a matrix of `rows` (outputs) x `columns` (inputs) to the bytes of one storage format, and rounds values to
/// those that the format can represent.
class stored_form {
 public:
  stored_form(uint64_t rows, uint64_t columns) : rows_(rows), columns_(columns) {}
  stored_form(const stored_form&) = delete;
  stored_form& operator=(const stored_form&) = delete;
  virtual ~stored_form() = default;

  [[nodiscard]] uint64_t rows() const { return rows_; }
  [[nodiscard]] uint64_t columns() const { return columns_; }
  /// Returns the name of the format for messages: "q4_0", "int4".
  [[nodiscard]] virtual std::string name() const = 0;

  /// Replaces whole rows by the values that are read back after storing them. `importance`, one value for each column
  /// or empty, weights the errors if the format searches for its scales. Refused: values that the format cannot hold.
  [[nodiscard]] virtual core::result<void> round(std::span<float> values, std::span<const float> importance) const = 0;

  /// Returns the number of columns that share a grid; 0 for formats whose codes cannot be chosen one by one:
  /// floating-point codes, and GGUF types whose blocks have several scales.
  [[nodiscard]] virtual uint64_t group() const { return 0; }
  /// Returns the grid with which rounding to nearest stores the values of one group.
  [[nodiscard]] virtual core::result<affine_grid> fit(std::span<const float> group) const;
  /// Returns the grid with offset 0 and this scale, rounded as the format stores it; nothing if the format has no such
  /// grid.
  [[nodiscard]] virtual std::optional<affine_grid> grid_with(float /*scale*/) const { return std::nullopt; }
  /// Returns the bytes of the matrix. `grids` has the grid of each group, row after row; `q` has the whole number of
  /// each element on the grid of its group.
  [[nodiscard]] virtual core::result<std::vector<stored_bytes>> pack(std::span<const affine_grid> grids,
                                                                     std::span<const int16_t> q) const;

 private:
  uint64_t rows_, columns_;
};

std::shared_ptr<const stored_form> form_of(const formats::compressed_matrix& m);
/// Returns how a matrix is stored in a GGUF type; null for types that do not store blocks.
std::shared_ptr<const stored_form> form_of(formats::gguf_type type, uint64_t rows, uint64_t columns);

}  // namespace troupe::checkpoint
