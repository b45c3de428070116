// Tests three file systems with one suite (the real one, the one in memory and the fake one): all have the properties
// on which saves rely.
#include "storage/files/file_system.hpp"

#include "storage/files/memory_files.hpp"
#include "tests/fakes/file_system.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(native_files)

using namespace troupe;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

/// Calls `f` with each of the file systems and a folder that does not exist in it.
void on_all(const auto& f) {
  const scratch_folder scratch;
  f(real_files(), scratch / "x");
  memory_files memory;
  f(memory, std::filesystem::path("/x"));
  fake_files fake;
  f(fake, std::filesystem::path("/x"));
}

void put(file_system& files, const std::filesystem::path& path, std::string_view text) {
  auto file = check_ok(files.create(path));
  check_ok((*file)->write(std::as_bytes(std::span(text))));
  check_ok((*file)->sync());
}

}  // namespace

BOOST_AUTO_TEST_CASE(written_files_are_read_and_listed) {
  on_all([](file_system& files, const std::filesystem::path& at) {
    check_ok(files.make_folder(at));
    put(files, at / "b", "bytes");
    put(files, at / "a", "");
    check_ok(files.make_folder(at / "c"));
    check_ok(files.sync_folder(at));
    const auto all = check_ok(files.list(at));
    std::string names;
    for (const auto& e : *all) names += e.name + (e.kind == entry_kind::folder ? "/ " : " ");
    BOOST_TEST(names == "a b c/ ");
    BOOST_TEST(read_small_file(files, at / "b", 5).value() == "bytes");
    BOOST_TEST(read_small_file(files, at / "a", 5).value().empty());
    check_failed(read_small_file(files, at / "b", 4), error_kind::limit, "has 5 bytes, at most 4 are read");
    std::array<std::byte, 4> four{};
    const auto file = check_ok(files.open(at / "b"));
    BOOST_TEST((*file)->bytes() == 5U);
    BOOST_TEST((*file)->read_at(3, four).value() == 2U);
    BOOST_TEST((*file)->read_at(9, four).value() == 0U);
    check_failed(read_exactly(**file, at / "b", 3, four), error_kind::io,
                 "': only 2 of 4 bytes could be read at byte 3");
    BOOST_TEST(files.exists(at / "c").value());
    BOOST_TEST(!files.exists(at / "d").value());
    BOOST_TEST(files.free_bytes(at).value() > 0U);
  });
}

BOOST_AUTO_TEST_CASE(names_are_taken_once_and_folders_are_removed_only_when_empty) {
  on_all([](file_system& files, const std::filesystem::path& at) {
    check_failed(files.create(at / "a"), error_kind::bad_input, (at / "a").string());
    check_failed(files.list(at), error_kind::bad_input, at.string());
    check_failed(files.sync_folder(at), files.sync_folder(at).error().kind, at.string());
    check_ok(files.make_folder(at));
    check_failed(files.make_folder(at), error_kind::bad_input, at.string());
    put(files, at / "a", "old");
    check_failed(files.create(at / "a"), error_kind::bad_input, (at / "a").string() + "': File exists");
    check_failed(files.open(at / "b"), error_kind::bad_input, "': No such file or directory");
    check_failed(files.open(at), error_kind::bad_input, "a regular file was wanted");
    BOOST_TEST(!files.remove(at));
    put(files, at / "b", "new");
    check_ok(files.rename(at / "b", at / "a"));
    BOOST_TEST(read_small_file(files, at / "a", 9).value() == "new");
    BOOST_TEST(!files.exists(at / "b").value());
    BOOST_TEST(!files.rename(at / "b", at / "c"));
    check_ok(files.make_folder(at / "one"));
    check_ok(files.make_folder(at / "two"));
    put(files, at / "two" / "inside", "x");
    BOOST_TEST(!files.rename(at / "one", at / "two"));
    BOOST_TEST(!files.rename(at / "one", at / "a"));
    check_ok(files.rename(at / "two", at / "one"));
    BOOST_TEST(read_small_file(files, at / "one" / "inside", 9).value() == "x");
    check_ok(files.remove(at / "one" / "inside"));
    check_ok(files.remove(at / "one"));
    check_ok(files.remove(at / "a"));
    check_ok(files.remove(at));
    BOOST_TEST(!files.exists(at).value());
  });
}

BOOST_AUTO_TEST_CASE(a_power_cut_keeps_synced_bytes_and_none_that_were_not_written) {
  fake_files files;
  check_ok(files.make_folder("/x"));
  check_ok(files.sync_folder("/"));
  put(files, "/x/synced", "all");
  check_ok(files.sync_folder("/x"));
  put(files, "/x/nameless", "bytes without a name");
  auto open = check_ok(files.create("/x/open"));
  check_ok((*open)->write(std::as_bytes(std::span(std::string_view("abcdefgh")))));
  const auto none = files.after_power_cut(survival::nothing), all = files.after_power_cut(survival::everything);
  BOOST_TEST(none->list("/x").value().size() == 1U);
  BOOST_TEST(read_small_file(*none, "/x/synced", 9).value() == "all");
  BOOST_TEST(all->list("/x").value().size() == 3U);
  BOOST_TEST(read_small_file(*all, "/x/open", 9).value() == "abcdefgh");
  bool lost = false, torn = false, kept = false;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const auto some = files.after_power_cut(survival::any, seed);
    BOOST_TEST(read_small_file(*some, "/x/synced", 9).value() == "all");
    const auto text = read_small_file(*some, "/x/open", 9);
    if (!text) {
      lost = true;
      continue;
    }
    BOOST_TEST(std::string_view("abcdefgh").starts_with(*text));
    kept = kept || text->size() == 8;
    torn = torn || (!text->empty() && text->size() < 8);
  }
  BOOST_TEST((lost && torn && kept));
}

BOOST_AUTO_TEST_CASE(wanted_names_of_a_folder_ascend_and_a_folder_that_cannot_be_listed_has_none) {
  const scratch_folder at;
  for (const char* name : {"c.json", "a.json", "b.bin", "d/e.json"}) at.write(name, "");
  const auto is_json = [](std::string_view name) { return name.ends_with(".json"); };
  BOOST_TEST(names_in(at.path(), is_json) == (std::vector<std::string>{"a.json", "c.json"}),
             boost::test_tools::per_element());
  BOOST_TEST(names_in(at / "none", is_json).empty());
  BOOST_TEST(names_in(at / "b.bin", is_json).empty());
}

BOOST_AUTO_TEST_SUITE_END()
