#include "checkpoint/convert/cut_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/tensor_view.hpp"
#include "formats/source/source_reader.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::checkpoint {
namespace {

bool is_weight(formats::tensor_kind k) {
  return k == formats::tensor_kind::master || k == formats::tensor_kind::weight || k == formats::tensor_kind::frozen;
}

std::vector<int64_t> cut_shape(const formats::tensor_entry& t, const source_cut& cut) {
  auto out = t.shape;
  if (!cut.rows.empty()) out[0] = static_cast<int64_t>(cut.rows.size());
  if (!cut.columns.empty()) out[1] = static_cast<int64_t>(cut.columns.size());
  return out;
}

core::result<void> check(const formats::tensor_entry& t, const source_cut& cut) {
  const auto bad = [&](const std::string& what) {
    return fail(error_kind::mismatch, fmt::format("tensor {}: {}", formats::shown(t), what));
  };
  const uint64_t elements = core::numel_of(t.shape);
  if (!cut.mask.empty() && cut.mask.size() != (elements + 7) / 8)
    return bad(fmt::format("wanted a mask of {} elements, got one of {} bytes", elements, cut.mask.size()));
  for (const auto& [dimension, places] :
       {std::pair<size_t, const std::vector<uint64_t>&>(0, cut.rows), {1, cut.columns}})
    if (!places.empty() && (dimension >= t.shape.size() || places.back() >= static_cast<uint64_t>(t.shape[dimension])))
      return bad(fmt::format("wanted indices within its dimension {}, got {} indices up to {}", dimension,
                             places.size(), places.back()));
  return {};
}

/// Computes the bytes of one tensor after its planned changes; keeps the tensor that was requested last.
class tensor_maker {
 public:
  tensor_maker(std::shared_ptr<const formats::tensor_source> from, source_cuts cuts)
      : from_(std::move(from)), cuts_(std::move(cuts)) {}

  using bytes = std::shared_ptr<const std::vector<std::byte>>;
  [[nodiscard]] const formats::tensor_source& from() const { return *from_; }
  /// Returns the changes to the tensor; null if there are none.
  [[nodiscard]] const source_cut* cut_of(const formats::tensor_entry& t) const {
    const auto at = cuts_.find(t.name);
    return at == cuts_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] const source_cuts& cuts() const { return cuts_; }

  core::result<bytes> make(size_t tensor, storage::file_system& files) {
    const std::lock_guard lock(mutex_);
    if (last_ != nullptr && tensor == of_) return last_;
    last_ = nullptr;
    const auto& t = from_->tensors[tensor];
    const uint64_t elements = core::numel_of(t.shape);
    std::vector<std::byte> whole(elements * core::size_of(t.type));
    TROUPE_TRY(formats::source_reader(*from_, files).read(t, 0, elements, whole));
    if (const auto* cut = cut_of(t)) {
      if (cut->change && is_weight(t.kind)) cut->change(t.type, whole);
      if (!cut->mask.empty()) kernels::apply_mask(whole.data(), t.type, elements, cut->mask);
      take_places(t, *cut, whole);
    }
    of_ = tensor;
    last_ = std::make_shared<const std::vector<std::byte>>(std::move(whole));
    return last_;
  }

 private:
  /// Moves the kept rows and columns of a tensor to the front of its bytes, and removes the others.
  static void take_places(const formats::tensor_entry& t, const source_cut& cut, std::vector<std::byte>& whole) {
    if (cut.rows.empty() && cut.columns.empty()) return;
    const uint64_t element_bytes = core::size_of(t.type), rows = static_cast<uint64_t>(t.shape[0]);
    const uint64_t row_bytes = whole.size() / std::max<uint64_t>(rows, 1);
    const uint64_t columns = t.shape.size() < 2 ? 1 : static_cast<uint64_t>(t.shape[1]);
    const uint64_t column_bytes = t.shape.size() < 2 ? element_bytes : row_bytes / columns;
    std::byte* to = whole.data();
    const uint64_t last = cut.rows.empty() ? rows : cut.rows.size();
    for (uint64_t i = 0; i < last; ++i) {
      const std::byte* const row = whole.data() + (cut.rows.empty() ? i : cut.rows[i]) * row_bytes;
      if (cut.columns.empty()) {
        std::memmove(to, row, row_bytes);
        to += row_bytes;
        continue;
      }
      for (const uint64_t c : cut.columns) {
        std::memmove(to, row + c * column_bytes, column_bytes);
        to += column_bytes;
      }
    }
    whole.resize(static_cast<size_t>(to - whole.data()));
  }

  std::shared_ptr<const formats::tensor_source> from_;
  source_cuts cuts_;
  std::mutex mutex_;
  size_t of_ = 0;
  bytes last_;
};

class made_file final : public storage::input_file {
 public:
  made_file(std::shared_ptr<tensor_maker> maker, size_t tensor, uint64_t size, storage::file_system& files)
      : maker_(std::move(maker)), tensor_(tensor), bytes_(size), files_(files) {}

  [[nodiscard]] uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_) return size_t{0};
    TROUPE_ASSIGN(const auto made, maker_->make(tensor_, files_));
    const size_t count = std::min<size_t>(out.size(), bytes_ - offset);
    std::memcpy(out.data(), made->data() + offset, count);
    return count;
  }

 private:
  std::shared_ptr<tensor_maker> maker_;
  size_t tensor_;
  uint64_t bytes_;
  storage::file_system& files_;
};

class made_tensor final : public formats::source_view {
 public:
  made_tensor(std::shared_ptr<tensor_maker> maker, size_t tensor, uint64_t size)
      : maker_(std::move(maker)), tensor_(tensor), bytes_(size) {}
  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system& files) const override {
    return std::make_unique<made_file>(maker_, tensor_, bytes_, files);
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  std::shared_ptr<tensor_maker> maker_;
  size_t tensor_;
  uint64_t bytes_;
};

}  // namespace

core::result<formats::tensor_source> cut_source(std::shared_ptr<const formats::tensor_source> from, source_cuts cuts) {
  for (const auto& [name, cut] : cuts)
    if (std::ranges::none_of(from->tensors, [&n = name](const formats::tensor_entry& t) { return t.name == n; }))
      return fail(error_kind::mismatch,
                  fmt::format("'{}' has no tensor '{}'", formats::shown_place(*from), formats::shown(name)));
  const auto maker = std::make_shared<tensor_maker>(from, std::move(cuts));
  formats::tensor_source out = *from;
  out.files.clear();
  out.tensors.clear();
  out.has_digests = false;  // digests are those of the source's pieces; tensor_maker's reader compares them
  out.save_id.reset();
  for (size_t i = 0; i < from->tensors.size(); ++i) {
    formats::tensor_entry t = from->tensors[i];
    const source_cut* const cut = maker->cut_of(t);
    if (cut != nullptr) {
      if (cut->drops) continue;
      TROUPE_TRY(check(t, *cut));
      t.shape = cut_shape(t, *cut);
    }
    const uint64_t elements = core::numel_of(t.shape), size = elements * core::size_of(t.type);
    t.cut = {};
    t.pieces = {{static_cast<uint32_t>(out.files.size()), 0, elements, 0, {}}};
    out.files.push_back({from->folder / t.name, size, nullptr, std::make_shared<made_tensor>(maker, i, size)});
    out.tensors.push_back(std::move(t));
  }
  const auto is_dropped = [&](const std::string& name) {
    const auto at = maker->cuts().find(name);
    return at != maker->cuts().end() && at->second.drops;
  };
  std::erase_if(out.parameter_order, is_dropped);
  std::erase_if(out.tied, [&](const formats::tied_name& t) { return is_dropped(t.of); });
  TROUPE_TRY(formats::complete(out));
  return out;
}

}  // namespace troupe::checkpoint
