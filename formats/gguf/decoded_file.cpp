#include "formats/gguf/decoded_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "core/math.hpp"
#include "core/text.hpp"

namespace troupe::formats {
namespace {

/// Largest number of bytes of the GGUF file that one read of neighbouring rows covers.
constexpr uint64_t rows_block_bytes = uint64_t{1} << 20;

/// Elements [first, first + count) of row `row` of a stored tensor.
struct row_part {
  uint64_t row = 0, first = 0, count = 0;
};

/// Reads one tensor. `file`, `path` and the tensor must outlive the reader; its buffers are reused from row to row.
class tensor_reader {
 public:
  tensor_reader(const storage::input_file& file, const std::filesystem::path& path, const decoded_tensor& t)
      : file_(file),
        path_(path),
        t_(t),
        width_(t.stored.extents[0]),
        rows_(t.stored.elements() / width_),
        element_bytes_(core::size_of(dtype_of(t.stored.type))) {}

  /// Reads elements of the tensor from `first` on, in the order in which models store them.
  core::result<void> read(uint64_t first, std::span<std::byte> out) {
    if (t_.order == gguf_order::transposed) return read_transposed(first, out);
    uint64_t count = out.size() / element_bytes_;
    while (count > 0) {
      const uint64_t row = first / width_, column = first % width_;
      uint64_t n = std::min(count, width_ - column);
      // consecutive whole rows are read together
      if (is_in_order() && column == 0) n = std::max(n, std::min(count, neighbours()) / width_ * width_);
      const auto part = out.first(static_cast<size_t>(n * element_bytes_));
      TROUPE_TRY(decode({stored_row(row), column, n}, part));
      if (t_.order == gguf_order::raised) lower(part);
      out = out.subspan(static_cast<size_t>(n * element_bytes_));
      first += n;
      count -= n;
    }
    return {};
  }

 private:
  [[nodiscard]] bool is_in_order() const { return t_.order == gguf_order::same || t_.order == gguf_order::raised; }

  /// Subtracts 1 from each of the fp32 elements in `part`.
  static void lower(std::span<std::byte> part) {
    for (size_t at = 0; at + sizeof(float) <= part.size(); at += sizeof(float)) {
      float x = 0;
      std::memcpy(&x, &part[at], sizeof(x));
      x -= 1;
      std::memcpy(&part[at], &x, sizeof(x));
    }
  }

  /// Returns how many elements one read covers: whole rows, at most rows_block_bytes of the file but at least one row.
  [[nodiscard]] uint64_t neighbours() const {
    const uint64_t row_bytes = width_ / block_elements(t_.stored.type) * block_bytes(t_.stored.type);
    return std::max<uint64_t>(rows_block_bytes / row_bytes, 1) * width_;
  }

  /// Returns the number of the row in the file that stores row `row` of the model's tensor.
  [[nodiscard]] uint64_t stored_row(uint64_t row) const {
    if (is_in_order()) return row;
    if (t_.order == gguf_order::by_head) {
      const uint64_t head = row / (3 * t_.head_rows), in_head = row % (3 * t_.head_rows);
      const uint64_t part = in_head / t_.head_rows, heads = rows_ / (3 * t_.head_rows);
      return (part * heads + head) * t_.head_rows + in_head % t_.head_rows;
    }
    const uint64_t in_head = row % t_.head_rows, half = t_.head_rows / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }

  /// Reads a part of the stored rows as plain elements; a part longer than its row continues in the rows that follow.
  core::result<void> decode(row_part part, std::span<std::byte> out) {
    const uint32_t per_block = block_elements(t_.stored.type), bytes = block_bytes(t_.stored.type);
    const uint64_t first_element = part.row * width_ + part.first;
    const uint64_t first_block = first_element / per_block;
    const uint64_t blocks = core::div_up(first_element + part.count, per_block) - first_block;
    const uint64_t at = t_.stored_begin + first_block * bytes;
    const auto format = blocks_of(t_.stored.type);
    if (!format) return storage::read_exactly(file_, path_, at, out);
    stored_.resize(static_cast<size_t>(blocks * bytes));
    TROUPE_TRY(storage::read_exactly(file_, path_, at, stored_));
    values_.resize(static_cast<size_t>(blocks * per_block));
    const uint64_t bad = kernels::dequantise_blocks(*format, stored_.data(), blocks, values_.data());
    if (bad != kernels::no_block)
      return fail(error_kind::bad_input,
                  fmt::format("'{}': tensor '{}': the scale of the block at byte {} is not finite", path_.string(),
                              core::shown(t_.stored.name), at + bad * bytes));
    std::memcpy(out.data(), values_.data() + (first_element - first_block * per_block), out.size());
    return {};
  }

  /// Reads elements of a transposed matrix, whose rows are columns of the stored matrix. Reads from each stored row
  /// only the columns that the result needs.
  core::result<void> read_transposed(uint64_t first, std::span<std::byte> out) {
    const uint64_t count = out.size() / element_bytes_;
    const uint64_t begin = first / rows_, end = core::div_up(first + count, rows_);
    part_.resize(static_cast<size_t>((end - begin) * element_bytes_));
    for (uint64_t r = 0; r < rows_; ++r) {
      TROUPE_TRY(decode({r, begin, end - begin}, part_));
      for (uint64_t c = begin; c < end; ++c) {
        const uint64_t element = c * rows_ + r;
        if (element < first || element >= first + count) continue;
        std::memcpy(&out[static_cast<size_t>((element - first) * element_bytes_)],
                    &part_[static_cast<size_t>((c - begin) * element_bytes_)], element_bytes_);
      }
    }
    return {};
  }

  const storage::input_file& file_;
  const std::filesystem::path& path_;
  const decoded_tensor& t_;
  uint64_t width_, rows_, element_bytes_;
  std::vector<std::byte> stored_, part_;
  std::vector<float> values_;
};

class decoded_file final : public storage::input_file {
 public:
  decoded_file(std::unique_ptr<storage::input_file> file, std::filesystem::path path,
               std::vector<decoded_tensor> tensors, uint64_t bytes)
      : file_(std::move(file)), path_(std::move(path)), tensors_(std::move(tensors)), bytes_(bytes) {}

  [[nodiscard]] uint64_t bytes() const override { return bytes_; }

  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), bytes_ - std::min(offset, bytes_))));
    const size_t wanted = out.size();
    auto at = std::ranges::upper_bound(tensors_, offset, {}, &decoded_tensor::begin);
    if (at != tensors_.begin()) --at;
    while (!out.empty()) {
      const uint64_t in_tensor = offset - at->begin;
      if (in_tensor >= at->bytes()) {  // the gap before the next tensor reads as zeros
        const uint64_t next = std::next(at) == tensors_.end() ? bytes_ : std::next(at)->begin;
        const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), next - offset));
        std::fill_n(out.begin(), n, std::byte{0});
        out = out.subspan(n);
        offset += n;
        ++at;
        continue;
      }
      const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), at->bytes() - in_tensor));
      const size_t width = core::size_of(dtype_of(at->stored.type));
      if (in_tensor % width != 0 || n % width != 0)
        return fail(error_kind::bug, fmt::format("'{}': {} bytes from byte {} of tensor '{}' are not whole elements",
                                                 path_.string(), n, in_tensor, core::shown(at->stored.name)));
      TROUPE_TRY(tensor_reader(*file_, path_, *at).read(in_tensor / width, out.first(n)));
      out = out.subspan(n);
      offset += n;
    }
    return wanted;
  }

 private:
  std::unique_ptr<storage::input_file> file_;
  std::filesystem::path path_;
  std::vector<decoded_tensor> tensors_;
  uint64_t bytes_;
};

}  // namespace

bool decoded_view::is_compressed() const {
  return std::ranges::any_of(tensors_, [](const decoded_tensor& t) { return blocks_of(t.stored.type).has_value(); });
}

core::result<std::unique_ptr<storage::input_file>> decoded_view::open(storage::file_system& files) const {
  auto file = files.open(path_);
  if (!file) return file;
  if ((*file)->bytes() != file_bytes_)
    return fail(error_kind::io, fmt::format("'{}' was changed while it was read: it had {} bytes and has {} now",
                                            path_.string(), file_bytes_, (*file)->bytes()));
  return std::make_unique<decoded_file>(std::move(*file), path_, tensors_, bytes());
}

}  // namespace troupe::formats
