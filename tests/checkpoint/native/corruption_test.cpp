// Damages a small checkpoint on the real disk in every way, and tests which check detects the damage, and when.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "checkpoint/convert/weights_export.hpp"
#include "checkpoint/native/manifest_text.hpp"
#include "checkpoint/native/native_source.hpp"
#include "formats/source/source_reader.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(corruption)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// Two checkpoints of two files each, in a folder of their own.
struct disk {
  scratch_folder scratch;
  fs::path root = scratch / "checkpoints", newest;
  std::vector<sample_tensor> tensors = sample_tensors(5);
  checkpoint_folder good;

  disk() {
    manifest m;
    m.tied = {{"lm_head.weight", "h.0.weight"}};
    check_ok(save_sample(real_files(), root, 10, sample_tensors(4), 2, m));
    const auto saved = check_ok(save_sample(real_files(), root, 20, tensors, 2, m));
    newest = *saved;
    const auto opened = check_ok(open_checkpoint(real_files(), root));
    good = *opened;
  }

  static void flip(const fs::path& file, uint64_t byte) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    char c = 0;
    const auto at = static_cast<off_t>(byte);
    BOOST_REQUIRE(::pread(fd, &c, 1, at) == 1);
    c = static_cast<char>(c ^ (1 << (byte % 8)));
    BOOST_REQUIRE(::pwrite(fd, &c, 1, at) == 1);
    ::close(fd);
  }

  /// The errors of opening the checkpoint, of loading all tensors and of verifying; each is empty if that succeeded.
  struct answers {
    std::string open, load;
    std::vector<damage> verify;
  };
  [[nodiscard]] answers ask() const {
    answers out;
    const auto opened = open_checkpoint(real_files(), root);
    if (!opened) {
      out.open = opened.error().text;
      return out;
    }
    const auto source = source_of(*opened);
    std::vector<wanted_part> wanted;
    uint64_t bytes = 0;
    for (const auto& t : tensors) {
      const auto* entry = find_tensor(source, t.entry.name, t.entry.kind, t.entry.moment);
      wanted.push_back({entry, 0, t.data.size() / core::size_of(t.entry.type), bytes});
      bytes += t.data.size();
    }
    std::vector<std::byte> into(bytes);
    const auto load = load_parts(real_files(), source, wanted, into);
    if (!load) out.load = load.error().text;
    const auto report = check_ok(verify_checkpoint(real_files(), newest));
    out.verify = report->listed;
    return out;
  }
};

std::string quoted(const fs::path& path) {
  std::string out = "'";
  return out.append(path.string()).append("'");
}

/// The part of a data file to which a byte belongs.
struct meaning {
  const tensor_entry* tensor = nullptr;  ///< tensor to which the byte belongs; null: the byte is in the file's header
  uint64_t begin = 0;                    ///< offset in the file of the first byte of the piece or of its padding
  bool padding = false;
};

/// Returns all parts of a file by their first byte: header, pieces and paddings, without gaps.
std::map<uint64_t, meaning> map_of(const manifest& m, uint32_t file) {
  std::map<uint64_t, meaning> out{{0, {}}};
  for (const auto& t : m.tensors)
    for (const auto& p : t.pieces)
      if (p.file == file) {
        const uint64_t end = p.offset_bytes + p.count * core::size_of(t.type);
        out[p.offset_bytes] = {&t, p.offset_bytes, false};
        if (end % piece_alignment_bytes != 0) out[end] = {&t, end, true};
      }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_flipped_byte_of_a_data_file_is_found_at_open_load_or_verify_by_what_it_is) {
  const disk d;
  std::map<std::string, size_t> seen;
  for (uint32_t f = 0; f < d.good.content.files.size(); ++f) {
    const auto& [name, size] = d.good.content.files[f];
    const auto path = d.newest / name;
    const auto parts = map_of(d.good.content, f);
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      const uint64_t begin = part->first, end = std::next(part) == parts.end() ? size : std::next(part)->first;
      const auto& what = part->second;
      // The test damages the first and the last byte of each part and some between them, more in the header.
      const uint64_t steps = what.tensor == nullptr ? 40 : 5;
      for (uint64_t i = 0; i < steps; ++i) {
        const uint64_t byte = begin + (end - 1 - begin) * i / (steps - 1);
        BOOST_TEST_CONTEXT(name << ", byte " << byte) {
          disk::flip(path, byte);
          const auto said = d.ask();
          if (what.tensor == nullptr) {
            ++seen["header"];
            BOOST_TEST(has(said.open, quoted(path) + ": it"), said.open);
          } else {
            BOOST_TEST(said.open.empty(), said.open);
            BOOST_REQUIRE(said.verify.size() == 1U);
            BOOST_TEST(said.verify[0].file == name);
            BOOST_TEST(said.verify[0].tensor == shown(*what.tensor));
            BOOST_TEST(said.verify[0].offset_bytes == what.begin);
            BOOST_TEST(has(said.verify[0].text, path.string()), said.verify[0].text);
            BOOST_TEST(has(said.verify[0].text, fmt::format("at byte {}", what.begin)), said.verify[0].text);
            ++seen[what.padding ? "padding" : std::string(name_of(what.tensor->kind))];
            // Padding belongs to no tensor, so a load does not read it.
            BOOST_TEST(said.load.empty() == what.padding, said.load);
            if (!what.padding) {
              BOOST_TEST(has(said.load, path.string()), said.load);
              BOOST_TEST(has(said.load, shown(*what.tensor)), said.load);
            }
          }
          disk::flip(path, byte);
        }
      }
    }
  }
  for (const char* kind : {"header", "padding", "master", "moment", "weight", "frozen", "buffer"})
    BOOST_TEST(seen[kind] >= 5U, kind);
  const auto whole = d.ask();
  BOOST_TEST((whole.open.empty() && whole.load.empty() && whole.verify.empty()));
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_of_manifest_or_latest_is_refused_at_open) {
  const disk d;
  for (const auto& path : {d.newest / "manifest.json", d.root / "latest"}) {
    const uint64_t size = fs::file_size(path);
    for (uint64_t byte = 0; byte < size; byte += 1 + size / 150) {
      disk::flip(path, byte);
      const auto said = d.ask();
      BOOST_TEST(has(said.open, path.string()), path << ", byte " << byte << ": " << said.open);
      disk::flip(path, byte);
    }
  }
  BOOST_TEST(d.ask().open.empty());
}

BOOST_AUTO_TEST_CASE(truncated_extended_swapped_and_missing_files_are_refused_at_open) {
  const disk d;
  const auto first = d.newest / "shard-00000.bin", second = d.newest / "shard-00001.bin", old = d.scratch / "old";
  const auto size = fs::file_size(first);
  for (const uint64_t wrong :
       {uint64_t{0}, uint64_t{100}, uint64_t{4096}, size - 4096, size - 1, size + 1, size + 4096}) {
    BOOST_TEST_INFO_SCOPE("wrong " << wrong);
    fs::copy_file(first, old);
    fs::resize_file(first, wrong);
    BOOST_TEST(
        has(d.ask().open, fmt::format("{}: it has {} bytes, but its manifest states {}", quoted(first), wrong, size)),
        d.ask().open);
    fs::rename(old, first);
  }
  // The test replaces the file by another file of the save and by a file of that name from another save, and removes
  // it.
  fs::rename(first, old);
  fs::copy_file(second, first);
  const bool same_size = fs::file_size(second) == size;
  BOOST_TEST(!same_size);
  BOOST_TEST(has(d.ask().open, first.string()));
  fs::remove(first);
  fs::copy_file(d.root / "step-00000010/shard-00000.bin", first);
  BOOST_REQUIRE(fs::file_size(first) == size);
  BOOST_TEST(has(d.ask().open, quoted(first) + ": it belongs to another save than its manifest"), d.ask().open);
  fs::remove(first);
  BOOST_TEST(has(d.ask().open, quoted(first) + ": No such file"), d.ask().open);
  fs::rename(old, first);
  BOOST_TEST(d.ask().open.empty());

  const auto text = d.newest / "manifest.json";
  for (const uint64_t wrong :
       {uint64_t{0}, uint64_t{40}, uint64_t{100}, fs::file_size(text) - 1, fs::file_size(text) + 1}) {
    BOOST_TEST_INFO_SCOPE("wrong " << wrong);
    fs::copy_file(text, old);
    fs::resize_file(text, wrong);
    BOOST_TEST(has(d.ask().open, text.string()), d.ask().open);
    fs::rename(old, text);
  }
  fs::rename(text, old);
  fs::copy_file(d.root / "step-00000010/manifest.json", text);  // the manifest is valid, but describes other files
  BOOST_TEST(has(d.ask().open, "another save"), d.ask().open);
  fs::remove(text);
  BOOST_TEST(has(d.ask().open, quoted(text) + ": No such file"), d.ask().open);
}

BOOST_AUTO_TEST_CASE(pieces_that_changed_places_do_not_have_their_digests) {
  const disk d;
  const auto& t = *find_tensor(d.good.content, "h.0.weight", tensor_kind::master);
  const auto& u = *find_tensor(d.good.content, "h.0.weight", tensor_kind::moment, "exp_avg");
  const auto path = d.newest / d.good.content.files[t.pieces[0].file].name;
  BOOST_REQUIRE((t.pieces[0].file == u.pieces[0].file && t.pieces[0].count == u.pieces[0].count));
  std::vector<char> a(t.pieces[0].count * 4), b(a.size());
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto at = static_cast<off_t>(t.pieces[0].offset_bytes), to = static_cast<off_t>(u.pieces[0].offset_bytes);
  const auto n = static_cast<ssize_t>(a.size());
  BOOST_REQUIRE((::pread(fd, a.data(), a.size(), at) == n && ::pread(fd, b.data(), b.size(), to) == n));
  BOOST_REQUIRE((::pwrite(fd, b.data(), b.size(), at) == n && ::pwrite(fd, a.data(), a.size(), to) == n));
  ::close(fd);
  const auto said = d.ask();
  BOOST_TEST(said.verify.size() == 2U);
  BOOST_TEST(has(said.load, "do not match their digest"), said.load);
}

BOOST_AUTO_TEST_CASE(a_newer_version_is_refused_by_its_number_whatever_else_it_holds) {
  const disk d;
  const auto path = d.newest / "manifest.json";
  auto text = scratch_folder::read(path);
  const std::string version = "\"version\":1,";
  const auto at = text.find(version);
  BOOST_REQUIRE(at != std::string::npos);
  text.replace(at, version.size(), "\"version\":5,");
  text.replace(text.find('\n') + 1, 10, "{{new form");
  d.scratch.write("checkpoints/step-00000020/manifest.json", text);
  const auto refused = open_checkpoint(real_files(), d.root);
  check_failed(refused, error_kind::mismatch, path.string());
  check_failed(refused, error_kind::mismatch, "it has version 5, this program reads versions up to 4");
  check_failed(verify_checkpoint(real_files(), d.newest), error_kind::mismatch, "it has version 5");
  const auto older = check_ok(open_checkpoint(real_files(), d.root, {.fallback_to_previous = true}));
  BOOST_TEST(older->content.run.step == 10U);
}

BOOST_AUTO_TEST_CASE(a_damaged_piece_is_never_used) {
  const disk d;
  const auto source = source_of(d.good);
  const auto& t = *find_tensor(source, "h.0.weight", tensor_kind::master);
  const auto& p = t.pieces[1];
  const auto path = d.newest / d.good.content.files[p.file].name;
  disk::flip(path, p.offset_bytes + 40);
  const std::string words = fmt::format("{}: the {} bytes at byte {}", quoted(path), p.count * 4, p.offset_bytes);
  const auto read = [&](source_reader& reader, uint64_t first, uint64_t count) {
    std::vector<std::byte> into(count * 4);
    return reader.read(t, first, count, into);
  };
  source_reader reader(source);
  for (int again = 0; again < 2; ++again) {
    check_ok(read(reader, 0, p.first));  // the piece before the damaged one can be read
    // The read requests another byte than the damaged one of the same piece, and must fail, too.
    check_failed(read(reader, p.first + p.count - 1, 1), error_kind::bad_input, words);
    check_failed(read(reader, 0, p.first + p.count), error_kind::bad_input, shown(t));
  }
  const auto out = d.scratch / "out";
  fs::create_directory(out);
  for (const char* name : {"weights.safetensors", "weights.pt", "folder"})
    for (const uint64_t shard_bytes : {uint64_t{2000}, uint64_t{1} << 30}) {
      check_failed(export_weights(source, {.out = out / name, .max_shard_bytes = shard_bytes}), error_kind::bad_input,
                   words);
      const bool clean = fs::is_empty(out) || (files_in(out) == 1 && fs::is_empty(out / "folder"));
      BOOST_TEST(clean, name << " left something");
    }
  disk::flip(path, p.offset_bytes + 40);
  check_ok(read(reader, p.first + 1, 1));
  check_ok(export_weights(source, {.out = out / "weights.safetensors"}));
}

BOOST_AUTO_TEST_CASE(any_damage_is_passed_over_for_the_checkpoint_before_it) {
  disk d;
  const auto falls_back = [&] {
    const auto found = check_ok(open_checkpoint(real_files(), d.root, {.fallback_to_previous = true}));
    BOOST_TEST(found->content.run.step == 10U);
    check_loads(real_files(), *found, sample_tensors(4), 1);
  };
  for (const auto& [name, byte] : std::map<std::string, uint64_t>{{"manifest.json", 200}, {"shard-00000.bin", 0}}) {
    disk::flip(d.newest / name, byte);
    falls_back();
    disk::flip(d.newest / name, byte);
  }
  for (const auto& t : d.good.content.tensors)
    for (const auto& p : t.pieces) {
      const auto path = d.newest / d.good.content.files[p.file].name;
      disk::flip(path, p.offset_bytes);
      falls_back();
      disk::flip(path, p.offset_bytes);
    }
  fs::remove(d.newest / "shard-00001.bin");
  falls_back();
}

BOOST_AUTO_TEST_SUITE_END()
