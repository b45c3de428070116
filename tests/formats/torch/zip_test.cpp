// Tests archives that the test writes and reads back; each kind of damage is refused with a text that names it.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "formats/torch/zip_crc32.hpp"
#include "formats/torch/zip_reader.hpp"
#include "formats/torch/zip_writer.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(zip)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string small_archive(const scratch_folder& at) {
  auto zip = check_ok(zip_writer::create(at / "a.zip"));
  check_ok(zip->add("top/data.pkl", bytes_of_text("hello")));
  check_ok(zip->add("top/empty", {}));
  check_ok(zip->begin("top/data/0", 300));
  for (int i = 0; i < 3; ++i) check_ok(zip->write(bytes_of_text(std::string(100, 'x'))));
  check_ok(zip->commit());
  return scratch_folder::read(at / "a.zip");
}

/// Returns the reason why `archive` is refused; empty if it is accepted.
std::string refusal(const std::string& archive) {
  const auto list = read_zip(bytes_of_text(archive));
  return list ? "" : list.error().text;
}

std::string with(std::string archive, size_t at, std::string_view bytes) {
  return archive.replace(at, bytes.size(), bytes);
}

size_t central_of(const std::string& archive, std::string_view name) { return archive.rfind(name) - 46; }

bool says(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_checksum_is_the_standard_crc_32) {
  BOOST_TEST(formats::crc32(bytes_of_text("123456789")) == 0xCBF43926U);  // the published check value of CRC-32
  const std::string text = "The quick brown fox jumps over the lazy dog";
  BOOST_TEST(formats::crc32(bytes_of_text(text)) == 0x414FA339U);
  for (size_t cut = 0; cut <= text.size(); ++cut)
    BOOST_TEST(formats::crc32(bytes_of_text(text.substr(cut)), formats::crc32(bytes_of_text(text.substr(0, cut)))) ==
               0x414FA339U);
}

BOOST_AUTO_TEST_CASE(the_checksum_of_many_bytes_at_once_equals_that_of_byte_after_byte) {
  std::string text;
  uint32_t one_by_one = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    text += static_cast<char>(i * 2654435761U >> 24);
    one_by_one = formats::crc32(bytes_of_text(text.substr(i)), one_by_one);
    BOOST_REQUIRE(formats::crc32(bytes_of_text(text)) == one_by_one);
    BOOST_REQUIRE(formats::crc32(bytes_of_text(text.substr(i / 3)),
                                 formats::crc32(bytes_of_text(text.substr(0, i / 3)))) == one_by_one);
  }
}

BOOST_AUTO_TEST_CASE(entries_read_back_aligned_and_whole) {
  const scratch_folder at;
  const std::string archive = small_archive(at);
  const auto list = check_ok(read_zip(bytes_of_text(archive)));
  const auto& entries = list->entries;
  BOOST_REQUIRE(entries.size() == 3U);
  for (const auto& e : entries) {
    BOOST_TEST(e.begin % zip_alignment_bytes == 0U);
    BOOST_TEST(e.crc32 == formats::crc32(bytes_of_text(archive).subspan(e.begin, e.bytes)));
  }
  const auto* data = find_entry(entries, "top/data/0");
  BOOST_REQUIRE(data != nullptr);
  BOOST_TEST(archive.substr(data->begin, data->bytes) == std::string(300, 'x'));
  BOOST_TEST(find_entry(entries, "top/data") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_comment_at_the_end_and_bytes_between_entries_are_tolerated) {
  const scratch_folder at;
  std::string archive = small_archive(at);
  archive[archive.size() - 2] = 4;
  BOOST_TEST(refusal(archive + "PK\5\6") == "");
}

BOOST_AUTO_TEST_CASE(compressed_encrypted_and_foreign_disks_are_refused) {
  const scratch_folder at;
  const std::string archive = small_archive(at);
  const size_t record = central_of(archive, "top/data/0");
  BOOST_TEST(says(refusal(with(archive, record + 10, "\x08")), "compressed by method 8"));
  BOOST_TEST(says(refusal(with(archive, record + 8, "\x09")), "encrypted"));
  BOOST_TEST(says(refusal(with(archive, record + 34, "\x01")), "another disk"));
  BOOST_TEST(says(refusal(with(archive, record + 24, "\x01")), "bytes, but states a size of"));
  BOOST_TEST(says(refusal(with(archive, archive.size() - 22 - 20 + 4, "\x01")), "several disks"));
}

BOOST_AUTO_TEST_CASE(names_that_escape_or_repeat_are_refused) {
  const scratch_folder at;
  const std::string archive = small_archive(at);
  for (const std::string_view name :
       {"../data.pkl2", "/op/data.pkl", "t\\p/data.pkl", "top/../a.pkl", "to/data.p/.."}) {
    std::string broken = archive;
    for (size_t found = 0; (found = broken.find("top/data.pkl", found)) != broken.npos; ++found)
      broken.replace(found, 12, name);
    BOOST_TEST(says(refusal(broken), "leads out"), name);
  }
  std::string twice = archive;
  for (size_t found = 0; (found = twice.find("top/empty", found)) != twice.npos; ++found)
    twice.replace(found, 9, "top/data/"), ++found;
  const auto renamed = with(twice, twice.rfind("top/data/0"), "top/data/1");
  BOOST_TEST(says(refusal(renamed), "another name"));
  auto zip = zip_writer::create(at / "b.zip");
  check_ok(zip->add("same", {}));
  check_ok(zip->add("same", {}));
  check_failed(zip->commit(), "twice");
}

BOOST_AUTO_TEST_CASE(places_outside_the_file_and_overlaps_are_refused) {
  const scratch_folder at;
  const std::string archive = small_archive(at);
  const size_t record = central_of(archive, "top/data/0");
  BOOST_TEST(says(refusal(with(with(archive, record + 20, "\xFF\xFF"), record + 24, "\xFF\xFF")), "reach into"));
  BOOST_TEST(says(refusal(with(archive, record + 42, "\xF0\xFF\xFF\x7F")), "no local header"));
  BOOST_TEST(says(refusal(with(archive, record + 45, "\xFF")), "no local header"));
  const size_t first = central_of(archive, "top/data.pkl");
  BOOST_TEST(says(refusal(with(with(archive, first + 20, "\xA0"), first + 24, "\xA0")), "overlap"));
  BOOST_TEST(says(refusal(with(archive, record + 20, "\xFF\xFF\xFF\xFF")), "zip64 field"));
  for (size_t cut = 0; cut < archive.size(); ++cut) BOOST_TEST(refusal(archive.substr(0, cut)) != "");
}

BOOST_AUTO_TEST_CASE(an_entry_beyond_four_gigabytes_takes_the_wide_fields) {
  // The archive's directory is built by hand, because writing 4 GiB of zeros would be slow. It has the 64-bit fields,
  // of which this test needs only the offset.
  const scratch_folder at;
  std::string archive = small_archive(at);
  const size_t record = central_of(archive, "top/data/0");
  const std::string offset = archive.substr(record + 42, 4);
  archive.replace(record + 42, 4, "\xFF\xFF\xFF\xFF");
  archive.replace(record + 30, 2, std::string("\x0C\0", 2));
  archive.insert(record + 46 + 10, std::string("\1\0\x08\0", 4) + offset + std::string(4, '\0'));
  const size_t end64 = archive.size() - 22 - 20 - 56;
  archive[end64 + 40] = static_cast<char>(archive[end64 + 40] + 12);
  archive[archive.size() - 22 - 20 + 8] = static_cast<char>(archive[archive.size() - 22 - 20 + 8] + 12);
  BOOST_TEST(refusal(archive) == "");
}

BOOST_AUTO_TEST_CASE(a_writer_refuses_bytes_that_do_not_fit_the_entry) {
  const scratch_folder at;
  auto zip = zip_writer::create(at / "a.zip");
  check_ok(zip->begin("x", 3));
  BOOST_TEST(!zip->write(bytes_of_text("four")).has_value());
  BOOST_TEST(!zip->begin("y", 1).has_value());
  BOOST_TEST(!zip->commit().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
