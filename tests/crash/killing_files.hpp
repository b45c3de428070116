// Implements the real file system, but ends its process with SIGKILL at the n-th operation. All earlier operations are
// complete, as in a killed process.
#pragma once

#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "storage/files/file_system.hpp"

namespace troupe::tests {

class killing_files : public storage::file_system {
 public:
  using path = std::filesystem::path;

  /// If `torn` is true and the n-th operation is a write, the process dies in its middle, when half of the bytes are
  /// written or in flight; otherwise the process dies before the operation.
  explicit killing_files(uint64_t n, bool torn) : n_(n), torn_(torn) {}

  /// Returns the names of all operations so far.
  [[nodiscard]] const std::vector<std::string>& points() const { return points_; }

  core::result<std::unique_ptr<storage::output_file>> create(const path& p) override {
    point("create", p);
    auto file = storage::real_files().create(p);
    if (!file) return file;
    return std::make_unique<output>(*this, std::move(*file), p);
  }
  core::result<std::unique_ptr<storage::input_file>> open(const path& p) override {
    return storage::real_files().open(p);
  }
  core::result<void> rename(const path& from, const path& to) override {
    point("rename", to);
    return storage::real_files().rename(from, to);
  }
  core::result<void> remove(const path& p) override {
    point("unlink", p);
    return storage::real_files().remove(p);
  }
  core::result<void> make_folder(const path& p) override {
    point("mkdir", p);
    return storage::real_files().make_folder(p);
  }
  core::result<void> sync_folder(const path& p) override {
    point("sync folder", p);
    return storage::real_files().sync_folder(p);
  }
  core::result<std::vector<storage::folder_entry>> list(const path& p) override {
    return storage::real_files().list(p);
  }
  core::result<bool> exists(const path& p) override { return storage::real_files().exists(p); }
  core::result<uint64_t> free_bytes(const path& p) override { return storage::real_files().free_bytes(p); }

 private:
  using bytes_view = std::span<const std::byte>;

  struct output : storage::output_file {
    output(killing_files& k, std::unique_ptr<storage::output_file> f, path p)
        : owner(&k), file(std::move(f)), where(std::move(p)) {}

    core::result<void> expect(uint64_t bytes) override {
      owner->point("reserve", where);
      return file->expect(bytes);
    }
    core::result<void> write(bytes_view bytes) override {
      if (owner->tears()) (void)file->write(bytes.first(bytes.size() / 2));
      owner->point("write", where);
      return file->write(bytes);
    }
    core::result<uint64_t> start_write(bytes_view bytes) override {
      const uint64_t half = bytes.size() / 2;
      if (owner->tears()) (void)file->start_write(bytes.first(half - half % storage::write_alignment_bytes));
      owner->point("start of a write", where);
      auto ticket = file->start_write(bytes);
      owner->point("write in flight", where);
      return ticket;
    }
    core::result<void> wait(uint64_t ticket) override { return file->wait(ticket); }
    bool is_over(uint64_t ticket) override { return file->is_over(ticket); }
    core::result<void> sync() override {
      owner->point("sync", where);
      return file->sync();
    }

    killing_files* owner;
    std::unique_ptr<storage::output_file> file;
    path where;
  };

  [[nodiscard]] bool tears() const { return torn_ && points_.size() == n_; }

  void point(const char* action, const path& p) {
    if (points_.size() == n_) ::kill(::getpid(), SIGKILL);
    points_.push_back(std::string(action) + " " + p.filename().string());
  }

  uint64_t n_;
  bool torn_;
  std::vector<std::string> points_;
};

}  // namespace troupe::tests
