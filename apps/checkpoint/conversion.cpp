#include "apps/checkpoint/conversion.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "apps/checkpoint/model_description.hpp"
#include "apps/checkpoint/output_mark.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "formats/source/element_cast.hpp"
#include "job/model/configured_model.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Limit of the output's bytes for each byte of the files that it is made from. Blocks of 1.5 bits become 21 times as
/// many bytes in fp32, and layers that share a weight are written a few dozen times; a larger factor means few bytes
/// that repeat under many names or with strides of zero.
constexpr uint64_t most_times_larger = 64;
/// Size of the output up to which a conversion is permitted even if the source's files are much smaller.
constexpr uint64_t always_written_bytes = uint64_t{64} << 20;

/// Returns the bytes of all files that contain the tensors.
uint64_t stored_bytes(const formats::tensor_source& source) {
  uint64_t out = 0;
  for (const auto& f : source.files) out += f.view == nullptr ? f.bytes : 0;
  return out;
}

core::result<void> check_growth(const formats::tensor_source& source, const std::string& out, uint64_t needed_bytes) {
  const uint64_t stored = stored_bytes(source);
  if (needed_bytes <= always_written_bytes || needed_bytes / most_times_larger <= stored) return {};
  return core::fail(
      core::error_kind::limit,
      fmt::format("'{}' would take {}, more than {} times the {} of '{}', which repeats its bytes under many "
                  "names or with strides of 0: files of torch.save (NAME.pt) keep the bytes of several "
                  "names once",
                  out, core::human_bytes(needed_bytes), most_times_larger, core::human_bytes(stored),
                  formats::shown_place(source)));
}

fs::path parent_of(const fs::path& out) {
  const auto parent = out.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// Removes the slash at the end of a path: returns `dir/out` for `dir/out/`.
fs::path plain(const fs::path& out) { return out.has_filename() ? out : out.parent_path(); }

/// Refuses an output that would replace a file of `source`, also through a link, or its folder.
core::result<void> check_apart(const fs::path& out, const formats::tensor_source& source) {
  std::error_code e;
  const auto outer = fs::canonical(out, e);
  if (e) return fail(error_kind::io, fmt::format("cannot look at '{}': {}", out.string(), e.message()));
  std::vector<fs::path> read;
  if (!source.folder.empty()) read.push_back(source.folder);
  for (const auto& f : source.files)
    if (f.is_stored()) read.push_back(f.path);
  for (const auto& r : read) {
    const auto inner = fs::canonical(r, e);
    if (e) return fail(error_kind::io, fmt::format("cannot look at '{}': {}", r.string(), e.message()));
    if (std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end())
      return fail(error_kind::bad_input,
                  fmt::format("'{}' cannot be replaced: it contains '{}', which is read", out.string(), r.string()));
  }
  return {};
}

bool is_taken(const fs::path& out, output_kind kind) {
  std::error_code e;
  const auto status = fs::symlink_status(out, e);
  return fs::exists(status) && !(kind == output_kind::folder && fs::is_directory(status) && fs::is_empty(out, e));
}

core::result<void> check(const output_wish& wish, const formats::tensor_source* source) {
  const auto& out = wish.out;
  const auto name = out.filename();
  if (name.empty() || name == "." || name == "..")
    return fail(error_kind::bad_input, fmt::format("cannot write '{}': wanted the name of a {}", out.string(),
                                                   wish.kind == output_kind::file ? "file" : "folder"));
  std::error_code e;
  const auto status = fs::symlink_status(out, e);
  if (wish.kind == output_kind::file && fs::is_directory(status))
    return fail(error_kind::bad_input, fmt::format("'{}' is a folder, wanted a file's name", out.string()));
  if (!is_taken(out, wish.kind)) return {};
  if (!wish.replace)
    return fail(error_kind::bad_input, fmt::format("'{}' exists{}: wanted a new name, or --force to replace it",
                                                   out.string(), fs::is_directory(status) ? " and is not empty" : ""));
  if (source != nullptr) TROUPE_TRY(check_apart(out, *source));
  return check_marked(out);
}

core::result<void> check_parent(const fs::path& out, uint64_t needed_bytes) {
  const auto parent = parent_of(out);
  std::error_code e;
  if (!fs::is_directory(parent, e))
    return fail(error_kind::bad_input,
                fmt::format("cannot write '{}': '{}' {}", out.string(), parent.string(),
                            fs::exists(fs::symlink_status(parent, e)) ? "is not a folder"
                                                                      : "does not exist: make this folder first"));
  if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return fail(error_kind::io,
                fmt::format("cannot write '{}': '{}': {}", out.string(), parent.string(), core::system_message(errno)));
  TROUPE_ASSIGN(const auto free, storage::real_files().free_bytes(parent));
  if (needed_bytes > free)
    return fail(error_kind::no_space, fmt::format("cannot write '{}': {} bytes are needed, {} are free in '{}'",
                                                  out.string(), needed_bytes, free, parent.string()));
  return {};
}

/// Notes the soft cap of logits that the checkpoint's run added to its model: no output contains it.
void note_soft_cap(const source_arguments& a, const formats::tensor_source& s) {
  const auto run = own_configuration(s);
  if (!run || run->loss.logit_soft_cap <= 0) return;
  note(a, fmt::format("warning: '{}': {}", formats::shown_place(s), job::unstated_soft_cap(run->loss.logit_soft_cap)));
}

/// True if a conversion into `name` creates this entry in its working folder: the output, or the temporary file of an
/// output that is one file.
bool is_of_room(const std::string& entry, const std::string& name) {
  return entry == name || (entry.starts_with("." + name + ".") && entry.ends_with(".part"));
}

/// Refuses a working folder that contains anything but what a crashed conversion left.
core::result<void> check_room(const fs::path& room, const std::string& name) {
  std::error_code e;
  const auto status = fs::symlink_status(room, e);
  if (!fs::exists(status)) return {};
  bool ours = fs::is_directory(status);
  for (fs::directory_iterator at(room, e), end; ours && !e && at != end; at.increment(e)) {
    const auto entry = at->path().filename().string();
    ours = entry == checkpoint::lock_file_name || is_of_room(entry, name);
  }
  if (ours && !e) return {};
  return fail(error_kind::bad_input,
              fmt::format("'{}' is in the way: OUT is written there first; remove it", room.string()));
}

/// Removes the incomplete output that a crashed conversion left in its working folder; requires the folder's lock.
void clear_room(const fs::path& room, const std::string& name, std::error_code& e) {
  for (fs::directory_iterator at(room, e), end; !e && at != end; at.increment(e))
    if (is_of_room(at->path().filename().string(), name)) fs::remove_all(at->path(), e);
}

}  // namespace

output_place::output_place(output_wish wish, fs::path room, checkpoint::folder_lock lock)
    : wish_(std::move(wish)), room_(std::move(room)), working_(room_ / wish_.out.filename()), lock_(std::move(lock)) {}

output_place::output_place(output_place&& other) noexcept
    : wish_(std::move(other.wish_)),
      room_(std::exchange(other.room_, {})),
      working_(std::move(other.working_)),
      lock_(std::move(other.lock_)) {}

output_place::~output_place() {
  std::error_code e;
  if (!room_.empty()) fs::remove_all(room_, e);
}

core::result<output_place> output_place::prepare(const output_wish& wish, const formats::tensor_source& source) {
  output_wish w = wish;
  w.out = plain(wish.out);
  TROUPE_TRY(check(w, &source));
  TROUPE_TRY(check_parent(w.out, w.needed_bytes));
  const auto name = w.out.filename().string();
  const auto room = parent_of(w.out) / fmt::format(".{}.part", name);
  const auto failed = [&](const core::error& why) {
    return fail(why.in(fmt::format("cannot write '{}'", w.out.string())));
  };
  if (auto ok = check_room(room, name); !ok) return failed(ok.error());
  auto lock = checkpoint::folder_lock::take(room, "writes it");
  if (!lock) return failed(lock.error());
  output_place place(std::move(w), room, std::move(*lock));
  // Checks again, because another process may have finished writing OUT between the first check and the lock.
  TROUPE_TRY(check(place.wish_, &source));
  std::error_code e;
  clear_room(room, name, e);
  if (!e && wish.kind == output_kind::folder) fs::create_directory(place.working_, e);
  if (e)
    return fail(core::kind_of_write_error(e.value()),
                fmt::format("cannot write '{}': {}", place.out().string(), e.message()));
  return place;
}

core::result<void> output_place::commit(const fs::path& below) {
  const auto from = below.empty() ? working_ : working_ / below;
  const auto& out = wish_.out;
  if (wish_.kind == output_kind::folder) {
    TROUPE_TRY(mark_folder(from));
    TROUPE_TRY(storage::sync_folder(from));
  }
  // Checks again that OUT may be replaced, because another program may have created it meanwhile. The source is not
  // checked, because all of it has been read.
  TROUPE_TRY(check(wish_, nullptr));
  int why = 0;
  if (!is_taken(out, wish_.kind) || wish_.kind == output_kind::file)
    why = ::rename(from.c_str(), out.c_str()) == 0 ? 0 : errno;
  else  // exchanges the new folder with the old one; the destructor removes the old one
    why = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, out.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
  if (why != 0)
    return fail(core::kind_of_write_error(why),
                fmt::format("cannot write '{}': {}", out.string(), core::system_message(why)));
  return storage::sync_folder(parent_of(out));
}

core::result<void> conversion::prepare(const formats::tensor_source& source, output_kind kind, uint64_t needed_bytes) {
  TROUPE_TRY(check_growth(source, to_.out, needed_bytes));
  TROUPE_ASSIGN(auto place, output_place::prepare({to_.out, kind, to_.force, needed_bytes}, source));
  place_.emplace(std::move(place));
  note_soft_cap(from_, source);
  clamped_ = source.clamped;
  return {};
}

core::result<void> conversion::commit(const std::filesystem::path& below) {
  display_.clear();
  if (clamped_ != nullptr && clamped_->count > 0)
    note(from_, fmt::format("warning: {} values outside the range of the type were clamped to its largest",
                            clamped_->count.load()));
  return place_->commit(below);
}

void conversion::say(const std::string& written, std::optional<uint64_t> bytes) const {
  if (from_.verbosity == verbosity::quiet) return;
  const double seconds = std::max(display_.seconds(), 1e-9);
  std::string line = fmt::format("{}: {}, {:.1f} s", to_.out, written, seconds);
  if (bytes) line += fmt::format(", {}/s", core::human_bytes(static_cast<double>(*bytes) / seconds));
  std::printf("%s\n", line.c_str());
}

}  // namespace troupe::apps
