#include "checkpoint/convert/weight_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/json_text.hpp"
#include "core/system_error.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr const char* weights_name = "weights.bin";
constexpr const char* journal_name = "journal.json";
constexpr uint64_t max_journal_bytes = uint64_t{1} << 30;
constexpr int journal_version = 4;
// number of bytes of a stored part that are read and digested at a time
constexpr size_t checked_bytes = size_t{1} << 20;
// put_values() stores fp32 values at multiples of this number, so that a piece of a source can begin at each of them
constexpr uint64_t value_alignment_bytes = alignof(double);

tl::unexpected<core::error> cannot(const char* what, const fs::path& path) {
  return fail(error_kind::io, fmt::format("cannot {} '{}': {}", what, path.string(), core::system_message(errno)));
}

/// Returns the number `v`; throws json::exception if it is negative or not a whole number.
uint64_t count_in(const json& v) { return v.get_ref<const json::number_unsigned_t&>(); }

/// Returns the part of kind number `n` that a line of the journal describes by offset, size and digest; nothing if a
/// value is invalid or the part reaches beyond the file's `bytes` bytes. Throws json::exception for other JSON types.
std::optional<prepared_part> part_of(uint64_t n, const json& offset, const json& size, const json& digest,
                                     uint64_t bytes) {
  const uint64_t at = count_in(offset), count = count_in(size);
  const auto known = storage::digest_from_hex(digest.get_ref<const std::string&>());
  if (n > static_cast<uint64_t>(formats::weight_part::global_scale) || at > bytes || count > bytes - at || !known)
    return std::nullopt;
  return prepared_part{static_cast<formats::weight_part>(n), at, count, *known};
}

tl::unexpected<core::error> damaged(const fs::path& folder, const std::string& what) {
  return fail(error_kind::bad_input,
              fmt::format("'{}': {}: it was changed after it was written; remove this folder to begin the work anew",
                          folder.string(), what));
}

}  // namespace

weight_store::weight_store(fs::path folder, std::string purpose, int fd)
    : folder_(std::move(folder)), purpose_(std::move(purpose)), fd_(fd) {}

weight_store::weight_store(weight_store&& other) noexcept
    : folder_(std::move(other.folder_)),
      purpose_(std::move(other.purpose_)),
      inputs_digest_(std::move(other.inputs_digest_)),
      fd_(std::exchange(other.fd_, -1)),
      steps_(other.steps_),
      bytes_(other.bytes_),
      made_(std::move(other.made_)),
      values_(std::move(other.values_)) {}

weight_store::~weight_store() {
  if (fd_ >= 0) ::close(fd_);
}

core::result<weight_store> weight_store::open(const fs::path& folder, const std::string& purpose) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e) return fail(error_kind::io, fmt::format("cannot make '{}': {}", folder.string(), e.message()));
  const auto path = folder / weights_name;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return cannot("write", path);
  weight_store out(folder, purpose, fd);
  if (auto ok = out.read_journal(); ok) {
    TROUPE_TRY(out.check_bytes());
  } else if (ok.error().kind != error_kind::mismatch) {
    return fail(ok.error());
  } else {
    out.steps_ = out.bytes_ = 0;
    out.made_ = {};
    out.values_.clear();
    out.inputs_digest_.clear();
    fs::remove(folder / journal_name, e);
  }
  // Bytes written after the last commit are not in the journal.
  if (::ftruncate(fd, static_cast<off_t>(out.bytes_)) != 0) return cannot("shorten", path);
  return out;
}

// Reads the journal. Returns mismatch if there is no journal for this purpose, and bad_input if it is damaged.
core::result<void> weight_store::read_journal() {
  std::error_code e;
  const auto other = [] { return fail(error_kind::mismatch, "no journal of this purpose"); };
  const auto broken = [&] { return damaged(folder_, "the journal does not match its digest"); };
  if (!fs::exists(folder_ / journal_name, e)) return other();
  TROUPE_ASSIGN(const auto text,
                storage::read_small_file(storage::real_files(), folder_ / journal_name, max_journal_bytes));
  auto all = core::parse_json<json>(text);
  if (!all || !all->is_object()) return broken();
  try {
    if (const auto version = all->find("version"); version == all->end() || *version != journal_version) return other();
    const auto digest = storage::digest_from_hex(all->at("digest").get_ref<const std::string&>());
    all->erase("digest");
    if (!digest || *digest != storage::digest_of(all->dump())) return broken();
    if (all->at("purpose") != purpose_) return other();
    inputs_digest_ = all->at("inputs").get<std::string>();
    steps_ = count_in(all->at("steps"));
    bytes_ = count_in(all->at("bytes"));
    for (const auto& [name, w] : all->at("weights").items()) {
      auto& to = made_.weights[name];
      to.lost = {w.at("error").get<double>(), w.at("squares").get<double>(), w.at("largest").get<double>()};
      for (const auto& p : w.at("parts")) {
        const auto part = part_of(count_in(p.at(0)), p.at(1), p.at(2), p.at(3), bytes_);
        if (!part) return broken();
        to.parts.push_back(*part);
      }
    }
    for (const auto& [name, v] : all->at("values").items()) {
      const auto at = part_of(static_cast<uint64_t>(formats::weight_part::codes), v.at(0), v.at(1), v.at(2), bytes_);
      if (!at || at->offset_bytes % value_alignment_bytes != 0 || at->bytes % sizeof(float) != 0) return broken();
      values_[name] = *at;
    }
    for (const auto& [name, v] : all->at("importance").items()) made_.importance[name] = v.get<std::vector<float>>();
  } catch (const json::exception&) {
    return broken();
  }
  if (fs::file_size(folder_ / weights_name, e) < bytes_ || e)
    return damaged(folder_, fmt::format("{} is shorter than the journal states", weights_name));
  return {};
}

core::result<void> weight_store::check_part(const std::string& tensor, const prepared_part& part) const {
  std::vector<std::byte> block(static_cast<size_t>(std::min<uint64_t>(part.bytes, checked_bytes)));
  storage::digest_stream digest;
  for (uint64_t done = 0; done < part.bytes;) {
    const auto want = static_cast<size_t>(std::min<uint64_t>(part.bytes - done, block.size()));
    const ssize_t n = ::pread(fd_, block.data(), want, static_cast<off_t>(part.offset_bytes + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot("read", folder_ / weights_name);
    if (n == 0) break;
    digest.add(std::span(block).first(static_cast<size_t>(n)));
    done += static_cast<uint64_t>(n);
  }
  if (digest.value() == part.digest) return {};
  return damaged(folder_, fmt::format("{} bytes at byte {} of {}, of weight '{}', do not match their digest",
                                      part.bytes, part.offset_bytes, weights_name, formats::shown(tensor)));
}

core::result<void> weight_store::check_bytes() const {
  for (const auto& [name, w] : made_.weights)
    for (const auto& part : w.parts) TROUPE_TRY(check_part(name, part));
  for (const auto& [name, part] : values_) TROUPE_TRY(check_part(name, part));
  return {};
}

core::result<uint64_t> weight_store::append(std::span<const std::byte> bytes) {
  const uint64_t at = bytes_;
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(bytes_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot("write", folder_ / weights_name);
    bytes = bytes.subspan(static_cast<size_t>(n));
    bytes_ += static_cast<uint64_t>(n);
  }
  return at;
}

core::result<void> weight_store::put(const std::string& tensor, const std::vector<stored_bytes>& parts,
                                     const rounding_error& lost) {
  prepared_weight w{.parts = {}, .lost = lost};
  for (const auto& p : parts) {
    TROUPE_ASSIGN(const auto at, append(p.bytes));
    w.parts.push_back({p.part, at, p.bytes.size(), storage::digest_of(p.bytes)});
  }
  made_.weights[tensor] = std::move(w);
  return {};
}

core::result<void> weight_store::put_values(const std::string& tensor, std::span<const float> values) {
  const std::vector<std::byte> padding((value_alignment_bytes - bytes_ % value_alignment_bytes) %
                                       value_alignment_bytes);
  TROUPE_TRY(append(padding));
  TROUPE_ASSIGN(const auto at, append(std::as_bytes(values)));
  values_[tensor] = {formats::weight_part::codes, at, values.size_bytes(), storage::digest_of(std::as_bytes(values))};
  return {};
}

void weight_store::put_importance(const std::string& tensor, std::vector<float> importance) {
  made_.importance[tensor] = std::move(importance);
}

core::result<void> weight_store::commit(uint64_t steps) {
  if (::fdatasync(fd_) != 0) return cannot("write", folder_ / weights_name);
  json all{{"version", journal_version},
           {"purpose", purpose_},
           {"steps", steps},
           {"bytes", bytes_},
           {"inputs", inputs_digest_}};
  auto& weights = all["weights"] = json::object();
  for (const auto& [name, w] : made_.weights) {
    auto& to =
        weights[name] = {{"error", w.lost.error_squares}, {"squares", w.lost.squares}, {"largest", w.lost.largest}};
    auto& parts = to["parts"] = json::array();
    for (const auto& p : w.parts)
      parts.push_back({static_cast<int>(p.part), p.offset_bytes, p.bytes, storage::to_hex(p.digest)});
  }
  auto& values = all["values"] = json::object();
  for (const auto& [name, v] : values_) values[name] = {v.offset_bytes, v.bytes, storage::to_hex(v.digest)};
  auto& importance = all["importance"] = json::object();
  for (const auto& [name, v] : made_.importance) importance[name] = v;
  all["digest"] = storage::to_hex(storage::digest_of(all.dump()));
  TROUPE_TRY(storage::write_file_atomically(folder_ / journal_name, all.dump()));
  steps_ = steps;
  return {};
}

core::result<prepared_weights> weight_store::prepared() const {
  TROUPE_TRY(check_bytes());
  TROUPE_ASSIGN(auto file, core::source_file::open(folder_ / weights_name));
  auto out = made_;
  out.file = std::make_shared<const core::source_file>(std::move(file));
  return out;
}

formats::tensor_source weight_store::overlaid(const formats::tensor_source& source) const {
  formats::tensor_source out = source;
  if (values_.empty()) return out;
  const auto file = static_cast<uint32_t>(out.files.size());
  out.files.push_back({.path = folder_ / weights_name, .bytes = bytes_});
  for (auto& t : out.tensors) {
    const auto at = values_.find(t.name);
    if (at == values_.end() || t.kind == formats::tensor_kind::moment) continue;
    t.type = core::dtype::f32;
    t.cut = {};
    t.pieces = {{.file = file,
                 .first = 0,
                 .count = at->second.bytes / sizeof(float),
                 .offset_bytes = at->second.offset_bytes,
                 .digest = {}}};
  }
  out.has_digests = false;
  out.save_id.reset();
  return out;
}

}  // namespace troupe::checkpoint
