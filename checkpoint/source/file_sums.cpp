#include "checkpoint/source/file_sums.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "checkpoint/torch/distributed_metadata.hpp"
#include "checkpoint/torch/zip_layout.hpp"
#include "core/source_file.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::fail;

/// True if the file begins as a zip archive does. torch.save's legacy stream and every other format do not.
core::result<bool> begins_as_zip(const input_file& file, const fs::path& path) {
  std::array<std::byte, 4> front{};
  if (file.bytes() < front.size()) return false;
  TROUPE_TRY(read_exactly(file, path, 0, front));
  return zip::number(front, 0, front.size()) == zip::local_signature;
}

class summed_file final : public input_file {
 public:
  summed_file(std::shared_ptr<file_sums> sums, std::unique_ptr<input_file> file, fs::path path)
      : sums_(std::move(sums)), file_(std::move(file)), path_(std::move(path)) {}
  [[nodiscard]] uint64_t bytes() const override { return file_->bytes(); }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    TROUPE_TRY(sums_->compare(*file_, path_, offset, out.size()));
    return file_->read_at(offset, out);
  }

 private:
  std::shared_ptr<file_sums> sums_;
  std::unique_ptr<input_file> file_;
  fs::path path_;
};

}  // namespace

core::result<std::unique_ptr<input_file>> file_sums::checked(const std::shared_ptr<file_sums>& sums,
                                                             std::unique_ptr<input_file> file, const fs::path& path) {
  TROUPE_TRY(sums->list(*file, path));
  if (sums->entries_.empty()) return file;
  return std::make_unique<summed_file>(sums, std::move(file), path);
}

core::result<void> file_sums::list(const input_file& file, const fs::path& path) {
  const std::lock_guard lock(mutex_);
  if (is_listed_) return {};
  TROUPE_ASSIGN(const bool is_zip, begins_as_zip(file, path));
  std::vector<archive_place> archives;
  if (is_zip) {
    if (path.extension() == distributed_extension)
      archives = archives_in(path);
    else
      archives.push_back({0, file.bytes()});
  }
  std::vector<zip_entry> found;
  archives_.clear();
  if (!archives.empty()) {
    TROUPE_ASSIGN(const auto archive, core::source_file::open(path));
    for (const auto& at : archives) {
      auto list = read_zip(archive, at.begin, at.bytes);
      if (!list) continue;  // the file is of another format, although it begins as a zip archive does
      for (auto e : list->entries) {
        e.begin += at.begin;
        if (e.crc32 != 0) found.push_back(e);
      }
      archives_.push_back(*std::move(list));
    }
  }
  std::ranges::sort(found, {}, &zip_entry::begin);
  entries_.clear();
  for (const auto& e : found) entries_.emplace_back(e);
  for (auto& e : entries_)
    if (e.of.name.ends_with("/data.pkl")) TROUPE_TRY(compare(file, path, e));
  is_listed_ = true;
  return {};
}

core::result<void> file_sums::compare(const input_file& file, const fs::path& path, uint64_t offset, uint64_t bytes) {
  TROUPE_TRY(list(file, path));
  const auto ends_before = [&](const entry& e) { return e.of.begin + e.of.bytes <= offset; };
  for (auto e = std::partition_point(entries_.begin(), entries_.end(), ends_before);
       e != entries_.end() && e->of.begin < offset + bytes; ++e)
    TROUPE_TRY(compare(file, path, *e));
  return {};
}

core::result<void> file_sums::compare(const input_file& file, const fs::path& path, entry& e) {
  const std::lock_guard lock(e.mutex);
  if (e.is_compared) return {};
  TROUPE_ASSIGN(const auto sum, sum_of(e.of, [&](uint64_t at, std::span<std::byte> out) {
                  return read_exactly(file, path, e.of.begin + at, out);
                }));
  if (sum != e.of.crc32) return fail(sum_error(path.string(), e.of.begin, e.of));
  e.is_compared = true;
  return {};
}

}  // namespace troupe::checkpoint
