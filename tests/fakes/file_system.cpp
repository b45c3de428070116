// Stores files and folders by number and names by folder; lists unsynced changes until a sync or a power cut.
#include "tests/fakes/file_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::storage {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t no_node = 0, root_node = 1;

tl::unexpected<core::error> refused(const char* action, const fs::path& path, const char* why) {
  return fail(error_kind::bad_input, fmt::format("cannot {} '{}': {}", action, path.string(), why));
}

tl::unexpected<core::error> no_power(const fs::path& path) {
  return fail(error_kind::io, fmt::format("cannot reach '{}': the power is gone", path.string()));
}

class fake_input : public input_file {
 public:
  fake_input(std::vector<std::byte> bytes, size_t longest) : bytes_(std::move(bytes)), longest_(longest) {}
  [[nodiscard]] uint64_t bytes() const override { return bytes_.size(); }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset_bytes, std::span<std::byte> out) const override {
    const auto at = static_cast<size_t>(std::min<uint64_t>(offset_bytes, bytes_.size()));
    const size_t n = std::min({out.size(), bytes_.size() - at, longest_});
    if (n > 0) std::memcpy(out.data(), bytes_.data() + at, n);
    return n;
  }

 private:
  std::vector<std::byte> bytes_;
  size_t longest_;
};

}  // namespace

/// A file with asynchronous writes. A started write is visible in the file at once but not synced, so that a power cut
/// may keep or lose it; its end or failure is reported only by wait(), is_over() and sync().
class fake_output : public output_file {
 public:
  fake_output(fake_files& files, uint64_t id, fs::path path) : files_(&files), id_(id), path_(std::move(path)) {}

  core::result<void> expect(uint64_t bytes) override { return files_->has_room(path_, bytes); }
  core::result<void> write(std::span<const std::byte> bytes) override {
    if (failed_) return fail(*failed_);
    return files_->write(id_, path_, bytes);
  }

  core::result<uint64_t> start_write(std::span<const std::byte> bytes) override {
    const auto aligned = [](uint64_t n) { return n % write_alignment_bytes == 0; };
    if (!aligned(reinterpret_cast<uintptr_t>(bytes.data())) || !aligned(bytes.size()) ||
        !aligned(files_->nodes_[id_].bytes.size()))
      return fail(error_kind::bug, fmt::format("a write in flight to '{}' is not aligned", path_.string()));
    const uint64_t at = files_->nodes_[id_].bytes.size();
    flying_.push_back({bytes, at, files_->append(id_, path_, bytes)});
    return ++begun_;
  }

  core::result<void> wait(uint64_t ticket) override {
    for (; over_ < std::min(ticket, begun_); ++over_) {
      auto& w = flying_[static_cast<size_t>(over_)];
      const auto stored = std::span(std::as_const(files_->nodes_[id_].bytes));
      if (w.done && !std::equal(w.memory.begin(), w.memory.end(), stored.begin() + static_cast<ptrdiff_t>(w.at)))
        w.done = fail(error_kind::bug, fmt::format("memory in flight to '{}' was touched", path_.string()));
      w.memory = {};
      if (auto ok = files_->spend(path_); !ok && w.done) w.done = ok;
      if (!w.done && !failed_) failed_ = w.done.error();
    }
    if (failed_) return fail(*failed_);
    return {};
  }

  /// Returns false at the first call for a ticket, so that callers must poll.
  bool is_over(uint64_t ticket) override {
    if (over_ >= ticket) return true;
    if (std::exchange(asked_, ticket) != ticket) return false;
    (void)wait(ticket);
    return true;
  }

  core::result<void> sync() override {
    if (auto ok = wait(begun_); !ok) return ok;
    return files_->sync(id_, path_);
  }

 private:
  struct flying {
    std::span<const std::byte> memory;  ///< the caller's memory, checked for changes when the write ends
    uint64_t at;                        ///< offset of the write in the file, in bytes
    core::result<void> done;
  };

  fake_files* files_;
  uint64_t id_;
  fs::path path_;
  std::vector<flying> flying_;
  uint64_t begun_ = 0, over_ = 0, asked_ = 0;
  std::optional<core::error> failed_;  ///< first error of an asynchronous write
};

fake_files::fake_files(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) { nodes_[root_node].folder = true; }

core::result<void> fake_files::spend(const fs::path& path) {
  const uint64_t number = operations_++;
  if (number == failing_)
    return fail(failure_,
                fmt::format("cannot change '{}': {}", path.string(),
                            failure_ == error_kind::no_space ? "No space left on device" : "Input/output error"));
  if (number >= power_until_) return no_power(path);
  return {};
}

uint64_t fake_files::find(const fs::path& path) const {
  uint64_t at = root_node;
  for (const auto& part : path.relative_path()) {
    const auto& names = nodes_.at(at).names;
    const auto next = names.find(part.string());
    if (next == names.end()) return no_node;
    at = next->second;
  }
  return at;
}

core::result<uint64_t> fake_files::parent_of(const fs::path& path) const {
  const uint64_t id = find(path.parent_path());
  if (id == no_node || !nodes_.at(id).folder) return refused("reach", path, "its folder is missing");
  return id;
}

core::result<std::unique_ptr<output_file>> fake_files::create(const fs::path& path) {
  if (auto ok = spend(path); !ok) return fail(ok.error());
  const auto parent = parent_of(path);
  if (!parent) return fail(parent.error());
  if (find(path) != no_node) return refused("create", path, "File exists");
  const uint64_t id = next_++;
  const std::string name = path.filename().string();
  nodes_[id];
  auto& folder = nodes_[*parent];
  folder.names[name] = id;
  folder.changes.push_back({"", name, id});
  return std::make_unique<fake_output>(*this, id, path);
}

core::result<void> fake_files::has_room(const fs::path& path, uint64_t bytes) const {
  if (bytes <= capacity_bytes_ - used_bytes_) return {};
  return fail(error_kind::no_space, fmt::format("cannot write '{}': No space left on device", path.string()));
}

core::result<void> fake_files::write(uint64_t id, const fs::path& path, std::span<const std::byte> bytes) {
  if (auto ok = spend(path); !ok) return ok;
  return append(id, path, bytes);
}

core::result<void> fake_files::append(uint64_t id, const fs::path& path, std::span<const std::byte> bytes) {
  if (operations_ > power_until_) return no_power(path);
  if (auto ok = has_room(path, bytes.size()); !ok) return ok;
  used_bytes_ += bytes.size();
  auto& n = nodes_[id];
  n.bytes.insert(n.bytes.end(), bytes.begin(), bytes.end());
  n.ends.push_back(n.bytes.size());
  return {};
}

core::result<void> fake_files::sync(uint64_t id, const fs::path& path) {
  if (auto ok = spend(path); !ok) return ok;
  auto& n = nodes_[id];
  n.synced_bytes = n.bytes.size();
  n.ends.clear();
  return {};
}

core::result<std::unique_ptr<input_file>> fake_files::open(const fs::path& path) {
  if (operations_ > power_until_) return spend(path).map([] { return std::unique_ptr<input_file>(); });
  const uint64_t id = find(path);
  if (id == no_node) return refused("read", path, "No such file or directory");
  if (nodes_[id].folder) return refused("read", path, "a regular file was wanted");
  return std::make_unique<fake_input>(nodes_[id].bytes, longest_read_);
}

core::result<void> fake_files::rename(const fs::path& from, const fs::path& to) {
  if (auto ok = spend(to); !ok) return ok;
  const auto parent = parent_of(from);
  if (!parent) return fail(parent.error());
  const uint64_t id = find(from), old = find(to);
  if (from.parent_path() != to.parent_path()) return refused("rename to", to, "another folder");
  if (id == no_node) return refused("rename to", to, "No such file or directory");
  if (old != no_node && nodes_[old].folder != nodes_[id].folder) return refused("rename to", to, "of another kind");
  if (old != no_node && !nodes_[old].names.empty()) return refused("rename to", to, "Directory not empty");
  if (old != no_node) used_bytes_ -= nodes_[old].bytes.size();
  auto& folder = nodes_[*parent];
  folder.names.erase(from.filename().string());
  folder.names[to.filename().string()] = id;
  folder.changes.push_back({from.filename().string(), to.filename().string(), id});
  return {};
}

core::result<void> fake_files::remove(const fs::path& path) {
  if (auto ok = spend(path); !ok) return ok;
  const auto parent = parent_of(path);
  if (!parent) return fail(parent.error());
  const uint64_t id = find(path);
  if (id == no_node) return refused("remove", path, "No such file or directory");
  if (!nodes_[id].names.empty()) return refused("remove", path, "Directory not empty");
  auto& folder = nodes_[*parent];
  folder.names.erase(path.filename().string());
  folder.changes.push_back({path.filename().string(), "", id});
  used_bytes_ -= nodes_[id].bytes.size();
  return {};
}

core::result<void> fake_files::make_folder(const fs::path& path) {
  if (auto ok = spend(path); !ok) return ok;
  const auto parent = parent_of(path);
  if (!parent) return fail(parent.error());
  if (find(path) != no_node) return refused("make the folder", path, "File exists");
  const uint64_t id = next_++;
  nodes_[id].folder = true;
  nodes_[*parent].names[path.filename().string()] = id;
  nodes_[*parent].changes.push_back({"", path.filename().string(), id});
  return {};
}

core::result<void> fake_files::sync_folder(const fs::path& path) {
  if (auto ok = spend(path); !ok) return ok;
  const uint64_t id = find(path);
  if (id == no_node || !nodes_[id].folder) return refused("sync the folder", path, "No such file or directory");
  nodes_[id].synced_names = nodes_[id].names;
  nodes_[id].changes.clear();
  return {};
}

core::result<std::vector<folder_entry>> fake_files::list(const fs::path& path) {
  const uint64_t id = find(path);
  if (id == no_node || !nodes_[id].folder) return refused("list", path, "No such file or directory");
  std::vector<folder_entry> out;
  for (const auto& [name, child] : nodes_[id].names)
    out.push_back({name, nodes_[child].folder ? entry_kind::folder : entry_kind::file});
  return out;
}

core::result<bool> fake_files::exists(const fs::path& path) { return find(path) != no_node; }

core::result<uint64_t> fake_files::free_bytes(const fs::path&) { return capacity_bytes_ - used_bytes_; }

std::vector<std::byte>* fake_files::content(const fs::path& path) {
  const uint64_t id = find(path);
  return id == no_node || nodes_[id].folder ? nullptr : &nodes_[id].bytes;
}

std::unique_ptr<fake_files> fake_files::after_power_cut(survival what, uint64_t seed) const {
  std::mt19937_64 random(seed);
  const auto keeps = [&] { return what == survival::everything || (what == survival::any && random() % 2 == 0); };
  auto out = std::make_unique<fake_files>(capacity_bytes_);
  out->next_ = next_;
  out->nodes_.clear();
  for (const auto& [id, from] : nodes_) {
    node to;
    to.folder = from.folder;
    to.names = from.synced_names;
    for (const auto& c : from.changes) {
      if (!keeps()) continue;
      if (const auto at = to.names.find(c.gone); at != to.names.end() && at->second == c.node) to.names.erase(at);
      if (!c.added.empty()) to.names[c.added] = c.node;
    }
    to.synced_names = to.names;
    to.bytes.assign(from.bytes.begin(), from.bytes.begin() + static_cast<ptrdiff_t>(from.synced_bytes));
    uint64_t begin = from.synced_bytes;
    for (const uint64_t end : from.ends) {
      if (keeps()) {
        // A torn write keeps only some of its first bytes; an earlier write that was lost leaves zeros.
        const uint64_t stop = what == survival::any && random() % 2 == 0 ? begin + random() % (end - begin + 1) : end;
        to.bytes.resize(begin);
        to.bytes.insert(to.bytes.end(), from.bytes.begin() + static_cast<ptrdiff_t>(begin),
                        from.bytes.begin() + static_cast<ptrdiff_t>(stop));
      }
      begin = end;
    }
    to.synced_bytes = to.bytes.size();
    out->used_bytes_ += to.bytes.size();
    out->nodes_[id] = std::move(to);
  }
  return out;
}

}  // namespace troupe::storage
