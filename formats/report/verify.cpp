// Compares every piece with its digest, and every entry of an archive with its CRC-32.
#include "formats/report/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>

#include "core/math.hpp"
#include "core/source_file.hpp"
#include "core/tensor_view.hpp"
#include "formats/report/inspect.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/tensors/tensor_shares.hpp"
#include "formats/torch/distributed_metadata.hpp"
#include "formats/torch/zip_reader.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

struct place {  ///< file and byte range of one piece
  uint64_t offset_bytes, bytes;
  const piece* part;
  const tensor_entry* tensor;
};

/// Reads all files of a source once.
class verifier {
 public:
  verifier(storage::file_system& files, const tensor_source& s, const storage::progress_function& progress)
      : files_(files), source_(s), progress_(progress), places_(s.files.size()), block_(read_block_bytes) {
    for (const auto& t : s.tensors)
      for (const auto& p : t.pieces) {
        places_[p.file].push_back({p.offset_bytes, p.count * core::size_of(t.type), &p, &t});
        if (s.has_digests && s.files[p.file].host.empty()) total_ += places_[p.file].back().bytes;
      }
    for (auto& of_file : places_)
      std::sort(of_file.begin(), of_file.end(),
                [](const place& a, const place& b) { return a.offset_bytes < b.offset_bytes; });
    if (!s.has_digests)
      for (const auto& f : s.files) total_ += f.bytes;
    out_.tensors = s.tensors.size();
  }

  core::result<verify_report> all() {
    for (uint32_t number = 0; number < source_.files.size(); ++number) {
      if (const auto& host = source_.files[number].host; !host.empty()) {
        out_.elsewhere[host].push_back(shown_file(source_, number));
        continue;
      }
      out_.pieces += places_[number].size();
      const auto file = open_source_file(files_, source_, number);
      if (!file) {
        note(number, "", 0, file.error().text);
        continue;
      }
      const bool is_view = source_.files[number].view != nullptr;
      TROUPE_TRY(source_.has_digests ? digests(number, **file)
                 : is_view           ? tensors(number, **file)
                                     : sums(number, **file));
    }
    if (const auto& lost = source_.lost_states; lost && out_.damages++ < max_listed_damages)
      out_.listed.push_back({lost->file.filename().string(), "", 0, lost->why.text});
    if (progress_ && !progress_(total_, total_)) return stopped();
    return std::move(out_);
  }

 private:
  void note(uint32_t file, std::string tensor, uint64_t offset, std::string text) {
    if (out_.damages++ < max_listed_damages)
      out_.listed.push_back({shown_file(source_, file), std::move(tensor), offset, std::move(text)});
  }
  static tl::unexpected<core::error> stopped() { return fail(core::error_kind::stopped, "stopped while reading"); }

  /// Reads one block of a file, and reports the progress. Errors: stopped, if the progress function ends the check; any
  /// other is recorded as a damage.
  core::result<void> read_block(uint32_t number, const storage::input_file& file, uint64_t offset,
                                const std::string& tensor, std::span<std::byte> out) {
    if (auto ok = storage::read_exactly(file, source_.files[number].path, offset, out); !ok) {
      note(number, tensor, offset, tensor.empty() ? ok.error().text : ok.error().in("tensor " + tensor).text);
      return ok;
    }
    out_.bytes += out.size();
    if (progress_ && !progress_(std::min(out_.bytes, total_), total_)) return stopped();
    return {};
  }

  /// Passes the bytes of a range of the file to `each`, a block at a time. Returns false after a read error, which is
  /// recorded as a damage. Returns an error only if the progress function stops the check.
  template <class Each>
  core::result<bool> read(uint32_t number, const storage::input_file& file, uint64_t offset, uint64_t bytes,
                          const std::string& tensor, Each each) {
    for (uint64_t done = 0; done < bytes;) {
      const auto part = std::span(block_).first(std::min<uint64_t>(bytes - done, block_.size()));
      if (auto ok = read_block(number, file, offset + done, tensor, part); !ok) {
        if (ok.error().kind == core::error_kind::stopped) return fail(ok.error());
        return false;
      }
      each(part);
      done += part.size();
    }
    return true;
  }

  core::result<void> digests(uint32_t number, const storage::input_file& file) {
    const auto& path = source_.files[number].path;
    for (const auto& at : places_[number]) {
      const auto tensor = shown(*at.tensor);
      storage::digest_stream digest;
      TROUPE_ASSIGN(const auto whole,
                    read(number, file, at.offset_bytes, at.bytes, tensor, [&](auto part) { digest.add(part); }));
      if (!whole) continue;
      out_.compared_bytes += at.bytes;
      if (digest.value() != at.part->digest) {
        note(number, tensor, at.offset_bytes,
             fmt::format("'{}': the {} bytes at byte {}, {}, {}", path.string(), at.bytes, at.offset_bytes,
                         shown(*at.tensor, *at.part), digest_differs));
        continue;
      }
      const uint64_t end = at.offset_bytes + at.bytes;
      if (source_.save_id)
        if (auto ok = check_padding(file, path, end); !ok) note(number, tensor, end, ok.error().text);
    }
    return {};
  }

  /// Reads the tensors of a virtual file one by one, so that one unreadable tensor does not hide the next.
  core::result<void> tensors(uint32_t number, const storage::input_file& file) {
    for (const auto& at : places_[number])
      TROUPE_TRY(read(number, file, at.offset_bytes, at.bytes, shown(*at.tensor), [](auto) {}));
    return {};
  }

  /// Checks that the padding after a piece of a Troupe file, up to a multiple of piece_alignment_bytes, is zeros.
  static core::result<void> check_padding(const storage::input_file& file, const fs::path& path, uint64_t end) {
    std::array<std::byte, piece_alignment_bytes> bytes{};
    const auto padding = std::span(bytes).first(static_cast<size_t>(core::round_up(end, piece_alignment_bytes) - end));
    TROUPE_TRY(storage::read_exactly(file, path, end, padding));
    if (std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; })) return {};
    return fail(core::error_kind::bad_input, fmt::format("'{}': the padding of {} bytes at byte {} is not zeros",
                                                         path.string(), padding.size(), end));
  }

  core::result<void> sums(uint32_t number, const storage::input_file& file) {
    const auto& path = source_.files[number].path;
    const auto archive = core::source_file::open(path);
    if (archive && path.extension() == distributed_extension) {
      for (const auto& at : archives_in(path)) {
        const auto list = read_zip(*archive, at.begin, at.bytes);
        if (!list) {
          note(number, "", at.begin, list.error().in(fmt::format("'{}'", path.string())).text);
        } else if (auto ok = sums(number, file, *list, at.begin); !ok) {
          return ok;
        }
      }
      return {};
    }
    const auto list = archive ? read_zip(*archive) : fail(archive.error());
    if (list) return sums(number, file, *list, 0);
    const auto read_all = read(number, file, 0, source_.files[number].bytes, "", [](auto) {});
    return read_all ? core::result<void>() : fail(read_all.error());
  }

  /// Compares the CRC-32 of the entries of an archive that begins at byte `begin` of its file.
  core::result<void> sums(uint32_t number, const storage::input_file& file, const zip_list& list, uint64_t begin) {
    const auto& path = source_.files[number].path;
    for (auto e : list.entries) {
      e.begin += begin;
      const auto sum = sum_of(e, [&](uint64_t offset, std::span<std::byte> out) {
        return read_block(number, file, e.begin + offset, "", out);
      });
      if (!sum && sum.error().kind == core::error_kind::stopped) return fail(sum.error());
      if (!sum || e.crc32 == 0) continue;  // a writer that computes no checksum stores 0
      out_.compared_bytes += e.bytes;
      if (*sum == e.crc32) continue;
      const auto tensor = tensor_in(number, e);
      note(
          number, tensor, e.begin,
          fmt::format("'{}': the {} bytes at byte {}, entry '{}'{}, {}", path.string(), e.bytes, e.begin,
                      core::shown(e.name), tensor.empty() ? "" : fmt::format(", with tensor {}", tensor), sum_differs));
    }
    return {};
  }

  /// Returns the name of the first tensor that has a piece in entry `e` of the archive.
  [[nodiscard]] std::string tensor_in(uint32_t number, const zip_entry& e) const {
    const auto& of_file = places_[number];
    const auto at = std::lower_bound(of_file.begin(), of_file.end(), e.begin,
                                     [](const place& p, uint64_t begin) { return p.offset_bytes < begin; });
    return at == of_file.end() || at->offset_bytes >= e.begin + e.bytes ? "" : shown(*at->tensor);
  }

  storage::file_system& files_;
  const tensor_source& source_;
  const storage::progress_function& progress_;
  std::vector<std::vector<place>> places_;  ///< pieces of each file, ascending by offset
  std::vector<std::byte> block_;
  uint64_t total_ = 0;
  verify_report out_;
};

}  // namespace

bool is_damage(const core::error& e) {
  return e.text.find(digest_differs) != std::string::npos || e.text.find(sum_differs) != std::string::npos;
}

core::result<verify_report> verify_source(storage::file_system& files, const tensor_source& s,
                                          const storage::progress_function& progress) {
  return verifier(files, s, progress).all();
}

}  // namespace troupe::formats
