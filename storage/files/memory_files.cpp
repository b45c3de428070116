// Keeps names as a sorted map of whole paths, in which all paths inside a folder are neighbours.
#include "storage/files/memory_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/system/stream_copy.hpp"
#include "core/system_error.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::storage {
namespace {

namespace fs = std::filesystem;

/// Returns the only spelling of a path that is stored: `/a/b`, or `/` for the root.
std::string plain(const fs::path& path) {
  auto out = ("/" / path).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

/// Returns the prefix of all paths in a folder.
std::string inside(const std::string& folder) { return folder == "/" ? folder : folder + "/"; }

tl::unexpected<core::error> refused(const char* action, const fs::path& path, int number) {
  return fail(core::path_error(action, path, number));
}

}  // namespace

/// A file that is being written; renaming or removing its name does not affect it.
class memory_files::output final : public output_file {
 public:
  output(memory_files& files, fs::path path, std::shared_ptr<content> to)
      : files_(files), path_(std::move(path)), to_(std::move(to)) {}

  core::result<void> expect(uint64_t bytes) override { return reserve(bytes); }

  core::result<void> write(std::span<const std::byte> bytes) override {
    if (bytes.empty()) return {};
    // If the length was not given by expect(), the memory grows by doubling.
    const uint64_t room = memory_ == nullptr ? 0 : memory_->bytes(), end = bytes_ + bytes.size();
    if (end > room) TROUPE_TRY(reserve(room == 0 ? end : std::max(end, 2 * room)));
    core::stream_copy(memory_->data() + bytes_, bytes);
    bytes_ = end;
    const std::lock_guard lock(files_.mutex_);
    to_->bytes = end;
    return {};
  }

  core::result<void> sync() override {
    if (files_.options_.on_finished)
      files_.options_.on_finished({path_, bytes_ > 0 ? memory_->descriptor() : -1, bytes_});
    return {};
  }

 private:
  core::result<void> reserve(uint64_t bytes) {
    if (bytes == 0 || (memory_ != nullptr && memory_->bytes() >= bytes)) return {};
    auto more = files_.segments_->take(bytes);
    if (!more) return fail(more.error().in("'" + path_.string() + "'"));
    if (bytes_ > 0) std::memcpy((*more)->data(), memory_->data(), bytes_);
    memory_ = std::move(*more);
    auto before = memory_;  // declared before the lock, so that the old memory is released after the unlock
    const std::lock_guard lock(files_.mutex_);
    std::swap(to_->memory, before);
    return {};
  }

  memory_files& files_;
  fs::path path_;
  std::shared_ptr<content> to_;
  memory_segments::segment memory_;
  uint64_t bytes_ = 0;
};

class memory_files::input final : public input_file {
 public:
  explicit input(content of) : of_(std::move(of)) {}

  [[nodiscard]] uint64_t bytes() const override { return of_.bytes; }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset_bytes, std::span<std::byte> out) const override {
    if (offset_bytes >= of_.bytes) return size_t{0};
    const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), of_.bytes - offset_bytes));
    if (n == 0) return n;
    if (of_.read) {
      TROUPE_TRY(of_.read(offset_bytes, out.first(n)));
      return n;
    }
    std::memcpy(out.data(), of_.memory->data() + offset_bytes, n);
    return n;
  }

 private:
  content of_;  // the content when the file was opened; keeps its memory alive
};

memory_files::memory_files(memory_files_options options)
    : options_(std::move(options)), segments_(std::make_shared<memory_segments>(options_.limit_bytes)) {}

memory_files::~memory_files() = default;

bool memory_files::is_folder(const std::string& path) const {
  if (path == "/") return true;
  const auto at = names_.find(path);
  return at != names_.end() && at->second == nullptr;
}

bool memory_files::is_empty_folder(const std::string& path) const {
  const auto first = names_.upper_bound(inside(path));
  return first == names_.end() || !first->first.starts_with(inside(path));
}

core::result<void> memory_files::has_parent(const char* action, const fs::path& path) const {
  const auto parent = fs::path(plain(path)).parent_path().string();
  if (is_folder(parent)) return {};
  return refused(action, path, names_.contains(parent) ? ENOTDIR : ENOENT);
}

void memory_files::forget_file(const content& file) {
  if (file.adopted) kept_elsewhere_bytes_ += file.bytes;
}

core::result<std::unique_ptr<output_file>> memory_files::create(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path);
  TROUPE_TRY(has_parent("create", path));
  if (name == "/" || names_.contains(name)) return refused("create", path, EEXIST);
  auto file = std::make_shared<content>();
  names_[name] = file;
  return std::make_unique<output>(*this, path, std::move(file));
}

core::result<std::unique_ptr<input_file>> memory_files::open(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path);
  if (is_folder(name))
    return fail(error_kind::bad_input, fmt::format("cannot open '{}': a regular file was wanted", path.string()));
  const auto at = names_.find(name);
  if (at == names_.end()) return refused("open", path, ENOENT);
  return std::make_unique<input>(*at->second);
}

core::result<void> memory_files::rename(const fs::path& from, const fs::path& to) {
  const std::lock_guard lock(mutex_);
  const auto old = plain(from), name = plain(to);
  const auto at = names_.find(old);
  if (at == names_.end()) return refused("rename to", to, ENOENT);
  if (fs::path(old).parent_path() != fs::path(name).parent_path()) return refused("rename to", to, EXDEV);
  if (old == name) return {};
  const bool moves_folder = at->second == nullptr;
  if (const auto taken = names_.find(name); taken != names_.end()) {
    const bool replaces_folder = taken->second == nullptr;
    if (moves_folder != replaces_folder) return refused("rename to", to, moves_folder ? ENOTDIR : EISDIR);
    if (moves_folder && !is_empty_folder(name)) return refused("rename to", to, ENOTEMPTY);
    if (!moves_folder) forget_file(*taken->second);
    names_.erase(taken);
  }
  auto moved = names_.extract(old);
  moved.key() = name;
  names_.insert(std::move(moved));
  const auto head = inside(old);
  while (moves_folder) {
    const auto next = names_.lower_bound(head);
    if (next == names_.end() || !next->first.starts_with(head)) break;
    auto entry = names_.extract(next);
    entry.key() = inside(name) + entry.key().substr(head.size());
    names_.insert(std::move(entry));
  }
  return {};
}

core::result<void> memory_files::remove(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path);
  const auto at = names_.find(name);
  if (at == names_.end()) return refused("remove", path, name == "/" ? EBUSY : ENOENT);
  if (at->second == nullptr && !is_empty_folder(name)) return refused("remove", path, ENOTEMPTY);
  if (at->second != nullptr) forget_file(*at->second);
  names_.erase(at);
  return {};
}

core::result<void> memory_files::make_folder(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path);
  TROUPE_TRY(has_parent("make the folder", path));
  if (name == "/" || names_.contains(name)) return refused("make the folder", path, EEXIST);
  names_[name] = nullptr;
  return {};
}

core::result<void> memory_files::sync_folder(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  if (!is_folder(plain(path))) return refused("sync the folder", path, ENOENT);
  return {};
}

core::result<std::vector<folder_entry>> memory_files::list(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path), head = inside(name);
  if (!is_folder(name)) return refused("list", path, names_.contains(name) ? ENOTDIR : ENOENT);
  std::vector<folder_entry> out;
  for (auto at = names_.upper_bound(head); at != names_.end() && at->first.starts_with(head); ++at) {
    auto own = at->first.substr(head.size());
    if (own.find('/') != std::string::npos) continue;
    out.push_back({std::move(own), at->second == nullptr ? entry_kind::folder : entry_kind::file});
  }
  return out;
}

core::result<bool> memory_files::exists(const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path);
  return name == "/" || names_.contains(name);
}

core::result<uint64_t> memory_files::free_bytes(const fs::path&) {
  const auto use = segments_->use();
  const uint64_t allowed = options_.limit_bytes - std::min(options_.limit_bytes, use.used);
  const auto free = free_memory();
  const std::lock_guard lock(mutex_);
  return free ? std::min(allowed, free->bytes + use.kept + kept_elsewhere_bytes_) : allowed;
}

core::result<void> memory_files::adopt(const fs::path& path, int descriptor, uint64_t bytes) {
  content file{.memory = {}, .bytes = bytes, .adopted = true};
  if (descriptor >= 0) {
    auto memory = shared_memory::open(descriptor);
    if (!memory) return fail(memory.error().in("'" + path.string() + "'"));
    file.memory = std::make_shared<shared_memory>(std::move(*memory));
  }
  if (const uint64_t there = file.memory == nullptr ? 0 : file.memory->bytes(); bytes > there)
    return fail(error_kind::bad_input, fmt::format("'{}': wanted {} bytes of another process's memory, which has {}",
                                                   path.string(), bytes, there));
  return put(path, std::move(file));
}

core::result<void> memory_files::adopt_elsewhere(const fs::path& path, uint64_t bytes, reader read) {
  return put(path, {.memory = {}, .bytes = bytes, .adopted = false, .read = std::move(read)});
}

core::result<void> memory_files::put(const fs::path& path, content file) {
  const std::lock_guard lock(mutex_);
  const auto name = plain(path);
  TROUPE_TRY(has_parent("adopt", path));
  if (is_folder(name)) return refused("adopt", path, EISDIR);
  if (file.adopted) kept_elsewhere_bytes_ -= std::min(kept_elsewhere_bytes_, file.bytes);
  auto& here = names_[name];
  if (here != nullptr) forget_file(*here);
  here = std::make_shared<content>(std::move(file));
  return {};
}

}  // namespace troupe::storage
