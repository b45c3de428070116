#include "formats/source/file_sums.hpp"

#include <iterator>

#include "formats/torch/archive.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

class summed_file final : public storage::input_file {
 public:
  summed_file(std::shared_ptr<file_sums> sums, std::unique_ptr<storage::input_file> file, fs::path path)
      : sums_(std::move(sums)), file_(std::move(file)), path_(std::move(path)) {}
  [[nodiscard]] uint64_t bytes() const override { return file_->bytes(); }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    TROUPE_TRY(sums_->compare(*file_, path_, offset, out.size()));
    return file_->read_at(offset, out);
  }

 private:
  std::shared_ptr<file_sums> sums_;
  std::unique_ptr<storage::input_file> file_;
  fs::path path_;
};

}  // namespace

void file_sums::add(const torch_archive& archive) {
  const auto& list = archive.zip();
  for (const auto& e : list->entries)
    if (e.crc32 != 0) entries_.try_emplace(archive.begin() + e.begin, std::shared_ptr<const zip_entry>(list, &e));
}

core::result<std::unique_ptr<storage::input_file>> file_sums::checked(const std::shared_ptr<file_sums>& sums,
                                                                      std::unique_ptr<storage::input_file> file,
                                                                      const fs::path& path) {
  if (sums->entries_.empty()) return file;
  TROUPE_TRY(sums->compare_pickles(*file, path));
  return std::make_unique<summed_file>(sums, std::move(file), path);
}

core::result<void> file_sums::compare_pickles(const storage::input_file& file, const fs::path& path) {
  const std::lock_guard lock(mutex_);
  if (has_compared_pickles_) return {};
  for (auto& at : entries_)
    if (at.second.of->name.ends_with("/data.pkl")) TROUPE_TRY(compare(file, path, at));
  has_compared_pickles_ = true;
  return {};
}

core::result<void> file_sums::compare(const storage::input_file& file, const fs::path& path, uint64_t offset,
                                      uint64_t bytes) {
  auto at = entries_.upper_bound(offset);
  if (at != entries_.begin())
    if (const auto before = std::prev(at); before->first + before->second.of->bytes > offset) at = before;
  for (; at != entries_.end() && at->first < offset + bytes; ++at) TROUPE_TRY(compare(file, path, *at));
  return {};
}

core::result<void> file_sums::compare(const storage::input_file& file, const fs::path& path,
                                      entry_map::value_type& at) {
  auto& [begin, e] = at;
  const std::lock_guard lock(e.mutex);
  if (e.is_compared) return {};
  TROUPE_TRY(compare_sum(*e.of, path.string(), begin, [&, first = begin](uint64_t offset, std::span<std::byte> out) {
    return storage::read_exactly(file, path, first + offset, out);
  }));
  e.is_compared = true;
  return {};
}

}  // namespace troupe::formats
