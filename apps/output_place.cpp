#include "apps/output_place.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "checkpoint/atomic_file.hpp"
#include "checkpoint/native_files.hpp"
#include "core/mapped_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

fs::path parent_of(const fs::path& out) {
  const auto parent = out.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// `dir/out` for `dir/out/` too.
fs::path plain(const fs::path& out) { return out.has_filename() ? out : out.parent_path(); }

core::result<void> check(const fs::path& out, bool replace, uint64_t needed_bytes) {
  std::error_code e;
  const auto status = fs::symlink_status(out, e);
  const bool taken = fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(out, e));
  if (taken && !replace)
    return fail(error_kind::bad_input, fmt::format("'{}' exists{}: wanted a new name, or --force to replace it",
                                                   out.string(), fs::is_directory(status) ? " and is not empty" : ""));
  const auto parent = parent_of(out);
  if (!fs::is_directory(parent, e))
    return fail(error_kind::bad_input,
                fmt::format("cannot write '{}': '{}' is no folder", out.string(), parent.string()));
  if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return fail(error_kind::io,
                fmt::format("cannot write '{}': '{}': {}", out.string(), parent.string(), core::system_message(errno)));
  const auto free = checkpoint::real_files().free_bytes(parent);
  if (!free) return fail(free.error());
  if (needed_bytes > *free)
    return fail(error_kind::no_space, fmt::format("cannot write '{}': {} bytes are needed, {} are free in '{}'",
                                                  out.string(), needed_bytes, *free, parent.string()));
  return {};
}

bool holds(const fs::path& folder, const fs::path& source) {
  std::error_code e;
  const auto outer = fs::weakly_canonical(folder, e), inner = fs::weakly_canonical(source, e);
  return !e && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

output_folder::output_folder(fs::path out, fs::path working) : out_(std::move(out)), working_(std::move(working)) {}

output_folder::output_folder(output_folder&& other) noexcept
    : out_(std::move(other.out_)), working_(std::exchange(other.working_, {})) {}

output_folder::~output_folder() {
  std::error_code e;
  if (!working_.empty()) fs::remove_all(working_, e);
}

core::result<output_folder> output_folder::prepare(const fs::path& where, bool replace, uint64_t needed_bytes,
                                                   const fs::path& source) {
  const auto out = plain(where);
  if (auto ok = check(out, replace, needed_bytes); !ok) return fail(ok.error());
  if (replace && holds(out, source))
    return fail(error_kind::bad_input,
                fmt::format("'{}' cannot be replaced: '{}', which is read, lies in it", out.string(), source.string()));
  auto working = parent_of(out) / fmt::format(".{}.{}.part", out.filename().string(), ::getpid());
  std::error_code e;
  if (!fs::create_directory(working, e))
    return fail(error_kind::io,
                fmt::format("cannot write '{}': {}", out.string(), e ? e.message() : "its working name is taken"));
  return output_folder(out, std::move(working));
}

core::result<void> output_folder::commit(const fs::path& below) {
  const auto failed = [&] {
    return fail(error_kind::io, fmt::format("cannot write '{}': {}", out_.string(), core::system_message(errno)));
  };
  const auto from = below.empty() ? working_ : working_ / below;
  if (auto ok = checkpoint::sync_folder(from); !ok) return ok;
  if (::rename(from.c_str(), out_.c_str()) == 0) {
    if (below.empty()) working_.clear();
  } else {
    // Only what --force lets through is in the way: the two change places, the destructor removes the old one.
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return failed();
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, out_.c_str(), RENAME_EXCHANGE) != 0) return failed();
  }
  return checkpoint::sync_folder(parent_of(out_));
}

core::result<void> check_output_file(const fs::path& out, bool replace, uint64_t needed_bytes) {
  std::error_code e;
  if (fs::is_directory(out, e))
    return fail(error_kind::bad_input, fmt::format("'{}' is a folder, wanted a file's name", out.string()));
  return check(out, replace, needed_bytes);
}

}  // namespace troupe::apps
