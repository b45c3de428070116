#include "actors/processes/machine_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "core/byte_stream.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::actors {
namespace {

/// Number of bytes of a file that one transfer carries.
constexpr uint64_t chunk_bytes = uint64_t{4} << 20;

struct file_request {
  /// true: the sender requests bytes of the receiver's file; false: it offers a copy of its own file to the receiver
  bool reads = false;
  uint64_t number = 0;
  std::string path;
  uint64_t first = 0, bytes = 0;
};
void fields(auto& f, file_request& x) { f(x.reads, x.number, x.path, x.first, x.bytes); }

struct file_reply {
  uint64_t number = 0;
  bool good = true;
  error_kind kind = error_kind::bug;
  std::string text;
  uint64_t bytes = 0;  // size of the requested file in bytes
};
void fields(auto& f, file_reply& x) { f(x.number, x.good, x.kind, x.text, x.bytes); }

enum class note_kind : uint8_t { request, reply };
std::string note(note_kind kind, auto x) {
  core::byte_writer out;
  out(machine_files::notes, kind, x);
  return out.take();
}

/// Result of one transfer of the byte mover: tell() returns the callback that stores it, and wait() waits for it.
class transfer {
 public:
  [[nodiscard]] fabric::transfer_end tell() const {
    return [end = end_](const core::result<void>& how) { end->set_value(how); };
  }
  core::result<void> wait() { return end_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<core::result<void>>> end_ = std::make_shared<std::promise<core::result<void>>>();
};

/// Returns the name of the transfer of one chunk of a file, from byte `done` of the request on. The process in place
/// `asker` has made request number `number`.
fabric::transfer_name name_of(uint32_t asker, uint64_t number, uint64_t done) {
  return {machine_files::notes | asker, number, done / chunk_bytes};
}

core::result<void> moved(fabric::byte_mover& mover, bool sends, uint32_t place, const fabric::transfer_name& name,
                         std::span<std::byte> bytes) {
  transfer t;
  if (sends)
    mover.send(place, name, bytes, t.tell());
  else
    mover.receive(place, name, bytes, t.tell());
  return t.wait();
}

}  // namespace

machine_files::machine_files(std::shared_ptr<fabric::byte_mover> mover, uint32_t place)
    : mover_(std::move(mover)), place_(place), thread_([this] { work(); }) {}

machine_files::~machine_files() { end(); }

void machine_files::end() {
  stop({error_kind::stopped, "the term has ended"});
  if (thread_.joinable()) thread_.join();
}

void machine_files::serve(storage::file_system& files, opener open_on_disk) {
  const std::lock_guard lock(mutex_);
  files_ = &files;
  open_on_disk_ = std::move(open_on_disk);
  came_.notify_all();
}

void machine_files::stop(const core::error& why) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) stopped_ = why;
  came_.notify_all();
}

void machine_files::lose(uint32_t place, const core::error& why) {
  const std::lock_guard lock(mutex_);
  lost_.emplace(place, why);
  for (auto& [number, x] : awaited_)
    if (x.from == place && !x.end) x.end = core::fail(why);
  came_.notify_all();
}

void machine_files::hear(uint32_t from, std::string_view text) {
  if (text.empty()) return;
  const auto kind = static_cast<note_kind>(text.front());
  text.remove_prefix(1);
  const std::lock_guard lock(mutex_);
  if (kind == note_kind::request) {
    requests_.emplace_back(from, text);
  } else if (const auto r = core::from_bytes<file_reply>(text)) {
    const auto at = awaited_.find(r->number);
    if (at == awaited_.end() || at->second.from != from || at->second.end) return;
    at->second.bytes = r->bytes;
    at->second.end = r->good ? core::result<void>() : core::fail(r->kind, r->text);
  }
  came_.notify_all();
}

uint64_t machine_files::ask(uint32_t whom, bool reads, const std::string& path, uint64_t first, uint64_t bytes) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++number_;
    auto& reply = awaited_[number];
    reply.from = whom;
    const auto lost = lost_.find(whom);
    if (lost != lost_.end()) reply.end = core::fail(lost->second);
    if (whom == place_)
      reply.end = core::fail(error_kind::bug, "'" + path + "': wanted a file of another process, got this one's place");
    if (reply.end) return number;
  }
  mover_->note(whom, note(note_kind::request, file_request{reads, number, path, first, bytes}));
  return number;
}

void machine_files::answer(uint32_t whom, uint64_t number, const core::result<void>& how, uint64_t bytes) {
  file_reply r{number, how.has_value(), error_kind::bug, {}, bytes};
  if (!how) {
    r.kind = how.error().kind;
    r.text = how.error().text.substr(0, fabric::note_bytes_max / 2);
  }
  mover_->note(whom, note(note_kind::reply, r));
}

core::result<uint64_t> machine_files::wait_for(uint64_t number) {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return awaited_[number].end || stopped_; });
  const auto end = awaited_[number].end ? std::move(*awaited_[number].end) : core::fail(*stopped_);
  const uint64_t bytes = awaited_[number].bytes;
  awaited_.erase(number);
  if (!end) return core::fail(end.error());
  return bytes;
}

core::result<void> machine_files::copy(uint32_t to, storage::file_system& files, const std::filesystem::path& path) {
  TROUPE_ASSIGN(const auto file, files.open(path));
  const uint64_t bytes = file->bytes();
  const uint64_t number = ask(to, false, path.string(), 0, bytes);
  std::vector<std::byte> buffer(std::min(bytes, chunk_bytes));
  for (uint64_t done = 0; done < bytes; done += chunk_bytes) {
    const auto part = std::span(buffer).first(std::min(chunk_bytes, bytes - done));
    TROUPE_TRY(storage::read_exactly(*file, path, done, part));
    TROUPE_TRY(moved(*mover_, true, to, name_of(place_, number, done), part));
  }
  TROUPE_TRY(wait_for(number));
  return {};
}

core::result<uint64_t> machine_files::size(uint32_t from, const std::string& path) {
  return wait_for(ask(from, true, path, 0, 0));
}

core::result<void> machine_files::read(uint32_t from, const std::string& path, uint64_t offset_bytes,
                                       std::span<std::byte> out) {
  const uint64_t number = ask(from, true, path, offset_bytes, out.size());
  TROUPE_TRY(wait_for(number));  // the other process has the requested range and will send it
  for (uint64_t done = 0; done < out.size(); done += chunk_bytes) {
    const auto part = out.subspan(done, std::min<uint64_t>(chunk_bytes, out.size() - done));
    TROUPE_TRY(moved(*mover_, false, from, name_of(place_, number, done), part));
  }
  return {};
}

// Receives a copy of a file and stores it. Receives all bytes even if the file cannot be written, because the sender
// waits for the end of the transfer.
core::result<void> machine_files::take_copy(uint32_t from, uint64_t number, const std::string& path, uint64_t bytes) {
  const std::filesystem::path at = path;
  auto good = storage::make_folders(*files_, at.parent_path());
  auto file = files_->create(at);
  if (!file) good = core::fail(file.error());
  if (good) good = (*file)->expect(bytes);
  std::vector<std::byte> buffer(std::min(bytes, chunk_bytes));
  for (uint64_t done = 0; done < bytes; done += chunk_bytes) {
    const auto part = std::span(buffer).first(std::min(chunk_bytes, bytes - done));
    TROUPE_TRY(moved(*mover_, false, from, name_of(from, number, done), part));
    if (good) good = (*file)->write(part);
  }
  return good ? (*file)->sync() : good;
}

core::result<void> machine_files::give(uint32_t to, uint64_t number, const std::string& path, uint64_t first,
                                       uint64_t bytes) {
  const bool on_disk = path.starts_with(disk_mark) && open_on_disk_;
  const auto file = on_disk ? open_on_disk_(path) : files_->open(path);
  core::result<void> good;
  if (!file)
    good = core::fail(file.error());
  else if (first > (*file)->bytes() || bytes > (*file)->bytes() - first)
    good = core::fail(error_kind::mismatch,
                      fmt::format("'{}': wanted {} bytes, got {}", path, first + bytes, (*file)->bytes()));
  answer(to, number, good, good ? (*file)->bytes() : 0);
  if (!good) return {};
  std::vector<std::byte> buffer(std::min(bytes, chunk_bytes));
  for (uint64_t done = 0; done < bytes; done += chunk_bytes) {
    const auto part = std::span(buffer).first(std::min(chunk_bytes, bytes - done));
    TROUPE_TRY(storage::read_exactly(**file, path, first + done, part));
    TROUPE_TRY(moved(*mover_, true, to, name_of(to, number, done), part));
  }
  return {};
}

void machine_files::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [this] { return stopped_ || (files_ != nullptr && !requests_.empty()); });
    if (stopped_) return;
    const auto [from, text] = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    if (const auto r = core::from_bytes<file_request>(text)) {
      if (r->reads)
        // The error is ignored here, because the transfer then fails in the requesting process, too.
        (void)give(from, r->number, r->path, r->first, r->bytes);
      else
        answer(from, r->number, take_copy(from, r->number, r->path, r->bytes));
    }
    lock.lock();
  }
}

}  // namespace troupe::actors
