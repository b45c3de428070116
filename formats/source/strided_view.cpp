#include "formats/source/strided_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/math.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

/// Ratio of a range's elements to the needed elements from which on several reads are cheaper than one long read.
constexpr uint64_t max_gap = 16;
/// Largest range in bytes that is always read at once, however few of its elements are needed.
constexpr uint64_t page_bytes = 4096;

/// One dimension of a box of elements.
struct extent {
  uint64_t count = 1, stride = 0;  ///< number of indices; elements in the file from one index to the next
  uint64_t step = 0;               ///< elements from one index to the next in row-major order
};

/// Returns the number of elements in the file from the first to the last element of the box.
uint64_t span_of(std::span<const extent> box) {
  uint64_t out = 1;
  for (const auto& e : box) out += (e.count - 1) * e.stride;
  return out;
}
uint64_t elements_of(std::span<const extent> box) {
  uint64_t out = 1;
  for (const auto& e : box) out *= e.count;
  return out;
}

template <size_t width>
void scatter(std::span<const extent> box, const std::byte* from, std::byte* to) {
  if (box.empty()) {
    std::memcpy(to, from, width);
    return;
  }
  const auto& e = box.front();
  const auto inner = box.subspan(1);
  for (uint64_t i = 0; i < e.count; ++i, from += e.stride * width, to += e.step * width)
    if (inner.empty())
      std::memcpy(to, from, width);
    else
      scatter<width>(inner, from, to);
}

void scatter(uint64_t width, std::span<const extent> box, const std::byte* from, std::byte* to) {
  if (width == 1) return scatter<1>(box, from, to);
  if (width == 2) return scatter<2>(box, from, to);
  if (width == 4) return scatter<4>(box, from, to);
  return scatter<8>(box, from, to);
}

/// The place of a strided tensor's elements in a file: path, first byte, element width and strides.
struct strided_place {
  std::filesystem::path path;
  uint64_t file_bytes = 0, begin = 0, width = 1, elements = 0;
  std::vector<extent> extents;  ///< dimensions in the order of the tensor's shape
  std::shared_ptr<file_sums> sums{};
};

class strided_file final : public storage::input_file {
 public:
  strided_file(std::unique_ptr<storage::input_file> file, const strided_place& place, const void* owner,
               std::shared_ptr<gathered_blocks> kept)
      : file_(std::move(file)), place_(place), owner_(owner), kept_(std::move(kept)) {
    // The tensor is divided into blocks along dimension cut_, the first one whose elements of a single index fit into a
    // block. A block has all elements of one or more indices.
    const uint64_t most = gathered_block_bytes / place.width;
    cut_ = 0;
    inner_ = place.elements / place.extents[0].count;
    while (inner_ > most) inner_ /= place.extents[++cut_].count;
    rows_ = std::min(most / inner_, place.extents[cut_].count);
    blocks_ = core::div_up(place.extents[cut_].count, rows_);
  }

  [[nodiscard]] uint64_t bytes() const override { return place_.elements * place_.width; }

  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), bytes() - std::min(offset, bytes()))));
    const size_t wanted = out.size();
    const uint64_t outer_bytes = place_.extents[cut_].count * inner_ * place_.width;
    const uint64_t block_bytes = rows_ * inner_ * place_.width;
    while (!out.empty()) {
      const uint64_t in_outer = offset % outer_bytes;
      const uint64_t number = offset / outer_bytes * blocks_ + in_outer / block_bytes;
      TROUPE_ASSIGN(const auto block, gathered(number));
      const uint64_t at = in_outer % block_bytes;
      const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), block->size() - at));
      std::memcpy(out.data(), block->data() + at, n);
      out = out.subspan(n);
      offset += n;
    }
    return wanted;
  }

 private:
  core::result<gathered_blocks::block> gathered(uint64_t number) const {
    if (auto kept = kept_->find(owner_, number)) return kept;
    uint64_t outer = number / blocks_, from = 0;
    for (size_t d = cut_; d > 0; --d) {
      const auto& e = place_.extents[d - 1];
      from += outer % e.count * e.stride;
      outer /= e.count;
    }
    const uint64_t first = number % blocks_ * rows_;
    std::vector<extent> box(place_.extents.begin() + static_cast<ptrdiff_t>(cut_), place_.extents.end());
    from += first * box[0].stride;
    box[0].count = std::min(rows_, box[0].count - first);
    std::ranges::stable_sort(box, std::ranges::greater(), &extent::stride);
    std::vector<std::byte> out(elements_of(box) * place_.width), read;
    TROUPE_TRY(gather(box, from, out.data(), read));
    auto block = std::make_shared<const std::vector<std::byte>>(std::move(out));
    kept_->keep(owner_, number, block);
    return block;
  }

  /// Copies the elements of `box` to `to`. The box begins `from` elements after the tensor's first element in the file,
  /// and its dimensions are sorted by stride, the largest first. `read` is a buffer that the calls reuse.
  core::result<void> gather(std::span<const extent> box, uint64_t from, std::byte* to,
                            std::vector<std::byte>& read) const {
    const uint64_t span = span_of(box), bytes = span * place_.width;
    if (bytes > page_bytes && (bytes > gather_read_bytes || span / elements_of(box) >= max_gap)) {
      const auto& e = box.front();
      for (uint64_t i = 0; i < e.count; ++i)
        TROUPE_TRY(gather(box.subspan(1), from + i * e.stride, to + i * e.step * place_.width, read));
      return {};
    }
    if (read.size() < bytes) read.resize(bytes);
    const auto into = std::span(read).first(bytes);
    TROUPE_TRY(storage::read_exactly(*file_, place_.path, place_.begin + from * place_.width, into));
    scatter(place_.width, box, read.data(), to);
    return {};
  }

  std::unique_ptr<storage::input_file> file_;
  const strided_place& place_;
  const void* owner_;
  std::shared_ptr<gathered_blocks> kept_;
  size_t cut_;       ///< dimension along which the tensor is divided into blocks
  uint64_t inner_;   ///< number of elements of one index of dimension cut_
  uint64_t rows_;    ///< number of indices of dimension cut_ in a block
  uint64_t blocks_;  ///< number of blocks for one index of the dimensions before cut_
};

class strided_view final : public source_view {
 public:
  strided_view(strided_place place, std::shared_ptr<gathered_blocks> kept)
      : place_(std::move(place)), kept_(std::move(kept)) {}

  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system& files) const override {
    auto file = files.open(place_.path);
    if (!file) return file;
    if ((*file)->bytes() != place_.file_bytes)
      return fail(error_kind::io, fmt::format("'{}' was changed while it was read: it had {} bytes and has {} now",
                                              place_.path.string(), place_.file_bytes, (*file)->bytes()));
    TROUPE_ASSIGN(auto checked, file_sums::checked(place_.sums, std::move(*file), place_.path));
    return std::make_unique<strided_file>(std::move(checked), place_, this, kept_);
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  strided_place place_;
  std::shared_ptr<gathered_blocks> kept_;
};

/// Returns the number of runs of adjacent elements that add_pieces() would make.
uint64_t count_runs(const torch_tensor& t) {
  size_t outer = t.shape.size();
  int64_t run = 1;
  while (outer > 0 && (t.shape[outer - 1] == 1 || t.strides[outer - 1] == run)) run *= t.shape[--outer];
  return t.numel / static_cast<uint64_t>(run);
}

}  // namespace

gathered_blocks::block gathered_blocks::find(const void* owner, uint64_t number) {
  const std::lock_guard lock(mutex_);
  for (auto& s : slots_)
    if (s.owner == owner && s.number == number) {
      s.used = ++uses_;
      return s.content;
    }
  return nullptr;
}

void gathered_blocks::keep(const void* owner, uint64_t number, block b) {
  const std::lock_guard lock(mutex_);
  *std::ranges::min_element(slots_, {}, &slot::used) = {owner, number, ++uses_, std::move(b)};
}

core::result<void> strided_views::add(std::vector<piece>& out, tensor_source& s, uint32_t file, const torch_tensor& t) {
  if (t.numel == 0 || count_runs(t) <= max_strided_pieces) return add_pieces(out, file, t);
  strided_place place{.path = s.files[file].path,
                      .file_bytes = s.files[file].bytes,
                      .begin = t.begin,
                      .width = core::size_of(t.type),
                      .elements = t.numel,
                      .extents = {},
                      .sums = s.files[file].sums};
  uint64_t step = t.numel;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    const auto count = static_cast<uint64_t>(t.shape[d]);
    step /= count;
    if (count > 1) place.extents.push_back({count, static_cast<uint64_t>(t.strides[d]), step});
  }
  if (t.numel / span_of(place.extents) > max_pieces)
    return fail(error_kind::limit,
                fmt::format("a tensor of {} elements repeats {} elements of its file more than {} times", t.numel,
                            span_of(place.extents), max_pieces));
  const auto [at, fresh] =
      known_.try_emplace({file, t.begin, t.type, t.shape, t.strides}, static_cast<uint32_t>(s.files.size()));
  if (fresh) {
    auto path = place.path;
    s.files.push_back({.path = std::move(path),
                       .bytes = t.numel * place.width,
                       .view = std::make_shared<const strided_view>(std::move(place), blocks_)});
  }
  add_piece(out, {at->second, 0, t.numel, 0, {}}, core::size_of(t.type));
  return {};
}

}  // namespace troupe::formats
