// Tests GGUF files: files of the `gguf` package are read completely, files that Troupe wrote are read back, and hostile
// files are refused.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>

#include "formats/gguf/header.hpp"
#include "formats/gguf/writer.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::formats::tests {
BOOST_AUTO_TEST_SUITE(gguf_format)

namespace {

using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

const fs::path peer_file = (std::string(troupe::places::source_dir) + "/tests/formats/fixtures/gguf/types.gguf");

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path written(const scratch_folder& folder, const std::string& bytes) {
  const auto path = folder.path() / "input.gguf";
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

core::result<gguf_header> header_of(const fs::path& path) {
  const auto file = core::source_file::open(path);
  if (!file) return core::fail(file.error());
  return read_gguf_header(*file);
}

/// A file with one tensor of four fp32 elements, and the fields that a test may change.
struct small_file {
  gguf_metadata metadata;
  std::vector<gguf_tensor> tensors{{"a", gguf_type::f32, {4}, 0}};

  [[nodiscard]] std::string text(uint64_t data_bytes = 32) {
    auto out = format_gguf_header(metadata, tensors);
    BOOST_REQUIRE(out);
    return *out + std::string(data_bytes, '\1');
  }
};

/// Returns the error of reading these bytes as a file; empty if the file is accepted.
std::string refusal(const std::string& bytes) {
  const scratch_folder folder;
  const auto read = header_of(written(folder, bytes));
  return read ? "" : read.error().text;
}

void put(std::string& in, size_t at, auto value) { std::memcpy(in.data() + at, &value, sizeof value); }

constexpr size_t tensor_count_at = 8, key_count_at = 16;

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_of_the_gguf_package_is_read_whole) {
  const auto read = header_of(peer_file);
  BOOST_REQUIRE(read);
  const auto& m = read->metadata;
  BOOST_CHECK_EQUAL(m.text("general.architecture"), "none");
  BOOST_CHECK(m.whole("a.uint8") == 200U);
  BOOST_CHECK(m.number("a.int8") == -100.0);
  BOOST_CHECK(!m.whole("a.int8"));
  BOOST_CHECK(m.whole("a.uint16") == 60000U);
  BOOST_CHECK(m.number("a.int16") == -30000.0);
  BOOST_CHECK(m.whole("a.uint32") == 4000000000U);
  BOOST_CHECK(m.number("a.int32") == -2000000000.0);
  BOOST_CHECK(m.number("a.float32") == static_cast<double>(0.1F));
  BOOST_CHECK(m.number("a.float64") == 0.1);
  BOOST_CHECK(m.whole("a.uint64") == UINT64_MAX);
  BOOST_CHECK(m.number("a.int64") == -0x1p63);
  BOOST_CHECK_EQUAL(m.text("a.string"), "grün");
  BOOST_REQUIRE(m.find("a.bool") != nullptr);
  BOOST_CHECK(*m.find("a.bool") == gguf_value::of(true));
  BOOST_CHECK(*m.find("a.texts") == gguf_value::of(std::vector<std::string>{"one", "", "three"}));
  BOOST_CHECK(*m.find("a.numbers") == gguf_value::of(std::vector<int32_t>{1, -2, 3}));
  BOOST_REQUIRE_EQUAL(read->tensors.size(), 12U);
  for (const auto& t : read->tensors) {
    BOOST_CHECK_EQUAL(t.extents[0], 256U);
    BOOST_CHECK_EQUAL(t.elements(), t.name == "line" ? 256U : 2048U);
  }
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  const scratch_folder folder;
  const auto path = folder.path() / "out.gguf";
  const auto peer = header_of(peer_file);
  BOOST_REQUIRE(peer);
  auto writer = gguf_writer::create(path, peer->metadata, peer->tensors);
  BOOST_REQUIRE(writer);
  const auto source = bytes_of_file(peer_file);
  for (const auto& t : peer->tensors)
    for (uint64_t done = 0; done < t.bytes();) {  // reads and writes in pieces of irregular sizes
      BOOST_TEST_INFO_SCOPE("done " << done);
      const uint64_t n = std::min<uint64_t>(1000, t.bytes() - done);
      const auto* from = source.data() + peer->data_begin + t.offset_bytes + done;
      BOOST_REQUIRE(writer->write(std::as_bytes(std::span(from, n))));
      done += n;
    }
  BOOST_CHECK(!fs::exists(path));
  BOOST_REQUIRE(writer->commit());
  BOOST_CHECK_EQUAL(fs::file_size(path), writer->bytes());
  BOOST_CHECK(bytes_of_file(path) == source);  // the written file must equal the package's file in every byte
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_finished_leaves_nothing) {
  const scratch_folder folder;
  const auto path = folder.path() / "out.gguf";
  {
    auto writer = gguf_writer::create(path, {}, {{"a", gguf_type::f32, {4}, 0}});
    BOOST_REQUIRE(writer);
    const std::vector<std::byte> bytes(8);
    BOOST_REQUIRE(writer->write(bytes));
    const auto ended = writer->commit();
    BOOST_REQUIRE(!ended);
    BOOST_CHECK_EQUAL(ended.error().text, "tensor 'a' lacks 8 bytes");
    BOOST_REQUIRE(writer->write(bytes));
    BOOST_CHECK(!writer->write(bytes));
  }
  BOOST_CHECK(fs::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(what_could_not_be_read_back_is_not_written) {
  const auto refused = [](std::vector<gguf_tensor> tensors) {
    const auto out = format_gguf_header({}, tensors);
    return out ? std::string() : out.error().text;
  };
  BOOST_CHECK_EQUAL(refused({{"a", gguf_type::q8_0, {33}, 0}}),
                    "tensor 'a': rows of 33 elements, wanted a multiple of 32 for q8_0");
  BOOST_CHECK_NE(refused({{std::string(64, 'n'), gguf_type::f32, {4}, 0}}), "");
  BOOST_CHECK_NE(refused({{"a", gguf_type::f32, {4}, 0}, {"a", gguf_type::f32, {4}, 0}}), "");
  BOOST_CHECK_NE(refused({{"a", gguf_type::f32, {2, 2, 2, 2, 2}, 0}}), "");
}

BOOST_AUTO_TEST_CASE(claims_beyond_all_bounds_are_refused_before_anything_is_allocated) {
  for (const size_t at : {tensor_count_at, key_count_at}) {
    BOOST_TEST_INFO_SCOPE("at " << at);
    auto bytes = small_file().text();
    put(bytes, at, uint64_t{1} << 63U);
    BOOST_TEST(refusal(bytes).find("at most") != std::string::npos, refusal(bytes));
    put(bytes, at, uint64_t{60000});  // the length is below the format's limit, but exceeds the file
    BOOST_TEST(refusal(bytes) != "");
  }
  small_file with_text;
  with_text.metadata.set("k", gguf_value::of(std::string("text")));
  auto bytes = with_text.text();
  const size_t key_at = 24, length_at = key_at + 8 + 1 + 4;
  for (const uint64_t length : {uint64_t{1} << 63U, UINT64_MAX, uint64_t{1} << 23U}) {
    BOOST_TEST_INFO_SCOPE("length " << length);
    auto changed = bytes;
    put(changed, length_at, length);
    BOOST_TEST(refusal(changed) != "");
    changed = bytes;
    put(changed, key_at, length);
    BOOST_TEST(refusal(changed) != "");
  }
  small_file with_array;
  with_array.metadata.set("k", gguf_value::of(std::vector<std::string>{"a", "b"}));
  bytes = with_array.text();
  for (const uint64_t count : {uint64_t{1} << 63U, uint64_t{1} << 20U}) {
    BOOST_TEST_INFO_SCOPE("count " << count);
    auto changed = bytes;
    put(changed, length_at + 4, count);
    BOOST_TEST(refusal(changed) != "");
  }
  put(bytes, length_at, uint32_t{9});
  BOOST_TEST(refusal(bytes).find("an array of arrays") != std::string::npos, refusal(bytes));
  put(bytes, length_at, uint32_t{13});
  BOOST_TEST(refusal(bytes).find("type 13, which does not exist") != std::string::npos, refusal(bytes));
}

BOOST_AUTO_TEST_CASE(tensors_that_lie_wrong_are_refused) {
  const auto tensor = [](const gguf_tensor& t) {
    small_file file;
    file.tensors = {{"first", gguf_type::f32, {16}, 0}, t};
    auto bytes = file.text(4096);
    const size_t offset_at = bytes.find(t.name) + t.name.size() + 4 + 8 * t.extents.size() + 4;
    put(bytes, offset_at, t.offset_bytes);
    return refusal(bytes);
  };
  BOOST_CHECK_EQUAL(tensor({"second", gguf_type::f32, {4}, 64}), "");
  BOOST_TEST(tensor({"second", gguf_type::f32, {4}, 32}).find("tensors 'first' and 'second' overlap") !=
             std::string::npos);
  BOOST_TEST(tensor({"second", gguf_type::f32, {4}, 65}).find("not a multiple of 32") != std::string::npos);
  BOOST_TEST(
      tensor({"second", gguf_type::f32, {4}, 4096}).find("from byte 4096 of the data on, but the data has only 4096") !=
      std::string::npos);
  BOOST_TEST(tensor({"second", gguf_type::f32, {4}, uint64_t{1} << 63U}) != "");
  BOOST_TEST(tensor({"second", gguf_type::f32, {2048}, 64}) != "");
}

BOOST_AUTO_TEST_CASE(types_extents_versions_and_alignments_that_do_not_exist_are_refused) {
  auto bytes = small_file().text();
  const size_t extents_at = bytes.find('a', 24) + 1, type_at = extents_at + 4 + 8;
  const auto changed = [&](size_t at, auto value) {
    auto out = bytes;
    put(out, at, value);
    return refusal(out);
  };
  BOOST_CHECK_EQUAL(refusal(bytes), "");
  for (const uint32_t type : {4U, 10U, 16U, 31U, 99U, UINT32_MAX})
    BOOST_TEST(changed(type_at, type).find("which is not read") != std::string::npos);
  BOOST_TEST(changed(type_at, uint32_t{8}).find("wanted a multiple of 32 for q8_0") != std::string::npos);
  for (const uint64_t extent : {uint64_t{0}, uint64_t{1} << 62U, uint64_t{1} << 63U, UINT64_MAX})
    BOOST_TEST(changed(extents_at + 4, extent) != "");
  BOOST_TEST(changed(extents_at, uint32_t{0}) != "");
  BOOST_TEST(changed(extents_at, uint32_t{5}).find("5 extents, wanted 1 to 4") != std::string::npos);
  BOOST_TEST(changed(4, uint32_t{1}).find("version 1, wanted 2 or 3") != std::string::npos);
  BOOST_TEST(changed(4, uint32_t{4}).find("version 4") != std::string::npos);
  BOOST_TEST(changed(4, uint32_t{3} << 24U).find("big-endian") != std::string::npos);
  BOOST_TEST(changed(0, uint32_t{0x47475546}).find("it begins with") != std::string::npos);
  for (const uint32_t alignment : {0U, 3U, 48U, 1U << 21U}) {
    BOOST_TEST_INFO_SCOPE("alignment " << alignment);
    small_file file;
    file.metadata.set("general.alignment", gguf_value::of(uint32_t{64}));
    auto other = file.text(128);
    put(other, other.find("general.alignment") + 17 + 4, alignment);
    BOOST_TEST(refusal(other).find("power of two") != std::string::npos, refusal(other));
  }
  small_file file;
  file.metadata.entries = {{"k", gguf_value::of(1U)}, {"k", gguf_value::of(2U)}};
  BOOST_TEST(refusal(file.text()).find("key 'k' appears twice") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_cut_anywhere_is_refused) {
  const auto whole = bytes_of_file(peer_file);
  for (size_t n = 0; n < whole.size(); n += n < 2000 ? 13 : 997) BOOST_TEST(refusal(whole.substr(0, n)) != "");
}

BOOST_AUTO_TEST_CASE(damaged_files_are_read_or_refused_in_one_sentence) {
  const auto whole = bytes_of_file(peer_file);
  const auto read = header_of(peer_file);
  BOOST_REQUIRE(read);
  const troupe::tests::mutation_hints hints{std::string_view("\0\1\2\3\4\5\6\7\x8\x9\xA\xFF\x7F\x80", 14),
                                            static_cast<size_t>(read->data_begin)};
  const scratch_folder folder;
  troupe::tests::for_mutations(whole, 7, hints, [&](size_t n, const std::string& text) {
    const auto header = header_of(written(folder, text));
    BOOST_TEST_CONTEXT("mutation " << n) {
      if (!header) {
        BOOST_TEST(header.error().text.size() < 2000);
      } else {
        for (const auto& t : header->tensors)
          BOOST_TEST(header->data_begin + t.offset_bytes + t.bytes() <= text.size());
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::formats::tests
