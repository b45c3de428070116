#include "formats/source/source_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/tensor_view.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/shard_header.hpp"
#include "formats/tensors/tensor_shares.hpp"

namespace troupe::formats {

namespace {

class memory_file final : public storage::input_file {
 public:
  explicit memory_file(std::shared_ptr<const std::vector<std::byte>> content) : content_(std::move(content)) {}
  [[nodiscard]] uint64_t bytes() const override { return content_->size(); }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t n = offset < content_->size() ? std::min<uint64_t>(out.size(), content_->size() - offset) : 0;
    std::copy_n(content_->begin() + static_cast<ptrdiff_t>(n == 0 ? 0 : offset), n, out.begin());
    return n;
  }

 private:
  std::shared_ptr<const std::vector<std::byte>> content_;
};

}  // namespace

core::result<std::unique_ptr<storage::input_file>> open_source_file(storage::file_system& files, const tensor_source& s,
                                                                    uint32_t number) {
  const auto& expected = s.files[number];
  if (expected.content != nullptr) return std::make_unique<memory_file>(expected.content);
  if (expected.view != nullptr) return expected.view->open(files);
  auto file = files.open(expected.path);
  if (!file) return file;
  if (s.save_id) {
    TROUPE_TRY(check_shard(**file, expected.path, {{}, expected.bytes}, *s.save_id));
  } else if ((*file)->bytes() != expected.bytes) {
    return fail(error_kind::io, fmt::format("'{}' was changed while it was read: it had {} bytes and has {} now",
                                            expected.path.string(), expected.bytes, (*file)->bytes()));
  }
  return file;
}

core::result<std::unique_ptr<storage::input_file>> open_checked_file(storage::file_system& files,
                                                                     const tensor_source& s, uint32_t number) {
  TROUPE_ASSIGN(auto file, open_source_file(files, s, number));
  const auto& of = s.files[number];
  if (!of.is_stored() || s.has_digests) return file;
  return file_sums::checked(of.sums, std::move(file), of.path);
}

core::result<void> compare_sums(storage::file_system& files, const tensor_source& s) {
  if (s.has_digests) return {};
  for (uint32_t i = 0; i < s.files.size(); ++i) {
    const auto& of = s.files[i];
    if (!of.is_stored() || !of.host.empty()) continue;
    TROUPE_ASSIGN(const auto file, open_source_file(files, s, i));
    TROUPE_TRY(of.sums->compare(*file, of.path, 0, file->bytes()));
  }
  return {};
}

core::result<const storage::input_file*> source_reader::opened(uint32_t number) {
  auto& slot = open_[number];
  if (slot == nullptr) {
    if (open_count_ == max_open_source_files) {
      for (auto& other : open_) other.reset();
      open_count_ = 0;
    }
    TROUPE_ASSIGN(auto file, open_checked_file(files_, from_, number));
    slot = std::move(file);
    ++open_count_;
  }
  return slot.get();
}

core::result<void> source_reader::read(const tensor_entry& t, uint64_t first, uint64_t count,
                                       std::span<std::byte> out) {
  const uint64_t elements = core::numel_of(t.shape), element_bytes = core::size_of(t.type);
  if (first > elements || count > elements - first || out.size() / element_bytes < count)
    return fail(error_kind::bug, fmt::format("tensor {}: {} elements from element {} on, into {} bytes, of {} elements",
                                             shown(t), count, first, out.size(), elements));
  const tensor_shares shares(t);
  for (const auto& part : shares.parts_of(first, count)) {
    const piece& p = *part.in;
    TROUPE_ASSIGN(const auto file, opened(p.file));
    const auto runs = shares.share_of(p).runs(part.first, part.count);
    const bool neighbours = runs.size() == 1;  // true: the elements are adjacent in the tensor, too
    if (!neighbours) share_block_.resize(part.count * element_bytes);
    const auto into = neighbours ? out.subspan((runs[0].whole - first) * element_bytes, part.count * element_bytes)
                                 : std::span(share_block_);
    const uint64_t at = p.offset_bytes + (part.first - p.first) * element_bytes;
    TROUPE_TRY(storage::read_exactly(*file, from_.files[p.file].path, at, into));
    if (from_.has_digests) TROUPE_TRY(check(t, p, *file, into));
    if (neighbours) continue;
    for (const auto& run : runs)
      std::memcpy(out.data() + (run.whole - first) * element_bytes, &into[(run.local - part.first) * element_bytes],
                  run.count * element_bytes);
  }
  return {};
}

core::result<void> source_reader::check(const tensor_entry& t, const piece& p, const storage::input_file& file,
                                        std::span<const std::byte> there) {
  const std::pair key(p.file, p.offset_bytes);
  if (checked_.contains(key)) return {};
  const auto& path = from_.files[p.file].path;
  const uint64_t bytes = p.count * core::size_of(t.type);
  storage::digest_stream digest;
  if (there.size() == bytes) {
    digest.add(there);
  } else {
    check_block_.resize(cast_block_bytes);
    for (uint64_t done = 0; done < bytes;) {
      const auto part = std::span(check_block_).first(std::min<uint64_t>(bytes - done, check_block_.size()));
      TROUPE_TRY(storage::read_exactly(file, path, p.offset_bytes + done, part));
      digest.add(part);
      done += part.size();
    }
  }
  if (digest.value() != p.digest)
    return fail(error_kind::bad_input, fmt::format("'{}': the {} bytes at byte {}, {}, {}", path.string(), bytes,
                                                   p.offset_bytes, shown(t, p), digest_differs));
  checked_.insert(key);
  return {};
}

core::error overflow_error(const std::string& tensor, const cast_overflow& lost, core::dtype wanted,
                           std::string_view advice) {
  return {error_kind::numeric, fmt::format("tensor {}: element {} is {}, which is out of range for {} (at most {}): {}",
                                           tensor, lost.element, core::number_text(lost.value), core::name_of(wanted),
                                           core::number_text(largest_of(wanted)), advice)};
}

core::result<void> source_reader::read_as(core::dtype wanted, const tensor_entry& t, uint64_t first, uint64_t count,
                                          std::span<std::byte> out) {
  if (wanted == t.type) return read(t, first, count, out);
  if (!is_floating(wanted) || !is_floating(t.type))
    return fail(error_kind::mismatch, fmt::format("tensor {}: {} cannot be converted to {}", shown(t),
                                                  core::name_of(t.type), core::name_of(wanted)));
  if (out.size() / core::size_of(wanted) < count)
    return fail(error_kind::bug,
                fmt::format("tensor {}: {} elements do not fit {} bytes", shown(t), count, out.size()));
  const uint64_t block = cast_block_bytes / core::size_of(t.type);
  block_.resize(static_cast<size_t>(std::min(count, block) * core::size_of(t.type)));
  for (uint64_t done = 0; done < count;) {
    const uint64_t n = std::min(count - done, block);
    TROUPE_TRY(read(t, first + done, n, block_));
    std::byte* const to = out.data() + done * core::size_of(wanted);
    const auto lost = cast_elements(t.type, block_.data(), wanted, to, n);
    if (lost && from_.clamped != nullptr)
      from_.clamped->count += clamp_overflows(t.type, block_.data(), wanted, to, n);
    else if (lost)
      return fail(overflow_error(shown(t), {first + done + lost->element, lost->value}, wanted,
                                 "use a wider type, or --allow-overflow, which clamps such values"));
    done += n;
  }
  return {};
}

}  // namespace troupe::formats
