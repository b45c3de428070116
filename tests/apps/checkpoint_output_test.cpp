// Tests the output of `troupe checkpoint`: existing files, files that it may replace, concurrent writers, an
// interrupted conversion.
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>

#include "tests/apps/checkpoint_folder.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint_output)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// Makes file permissions apply to the program that is executed next, even if it runs as root.
void obey_modes() { ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0); }

}  // namespace

BOOST_AUTO_TEST_CASE(existing_files_stay_unless_told_otherwise) {
  const checkpoints c;
  c.folder.write("full/mine.txt", "mine");
  c.folder.write("w.safetensors", "mine");
  fs::create_directory(c.folder / "empty");
  c.check_refused({"to-hf", "ck", "full"}, 2, "'full' exists and is not empty: wanted a new name, or --force");
  c.check_refused({"to-fp32", "ck", "full"}, 2, "'full' exists and is not empty");
  c.check_refused({"to-fp32", "ck", "w.safetensors"}, 2, "'w.safetensors' exists");
  c.check_refused({"to-hf", "ck", "ck", "--force"}, 2,
                  "'ck' cannot be replaced: it contains 'ck/step-00000006', which is read");
  c.check_refused({"to-hf", "ck", "full", "--force"}, 2, "'full' cannot be replaced: it has no '.troupe-conversion'");
  c.check_refused({"to-fp32", "ck", "w.safetensors", "--force"}, 2,
                  "'w.safetensors' cannot be replaced: no conversion wrote it");
  BOOST_TEST(c.troupe({"to-hf", "ck", "empty"}).code == 0);
  BOOST_TEST(scratch_folder::read(c.folder / "full/mine.txt") == "mine");
  BOOST_TEST(scratch_folder::read(c.folder / "w.safetensors") == "mine");
  const std::vector<std::string> all = {"empty", "full", "w.safetensors"};
  BOOST_TEST(c.written() == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(force_replaces_the_output_of_a_conversion_and_nothing_else) {
  const checkpoints c;
  for (const char* out : {"w.safetensors", "w.pt", "w.bin", "folder"}) {
    BOOST_TEST_INFO_SCOPE(out);
    BOOST_TEST(c.troupe({"to-fp32", "ck/step-00000005", out}).code == 0);
    c.check_refused({"to-fp32", "ck", out}, 2, "--force to replace it");
    check_exit(0, c.troupe({"to-fp32", "ck", out, "--force"}));
    BOOST_TEST(c.troupe({"diff", "ck", out, "--quiet"}).code == 0, out);
  }
  for (const char* command : {"to-hf", "to-deepspeed", "to-universal", "reshape"}) {
    BOOST_TEST_INFO_SCOPE(command);
    check_exit(0, c.troupe({command, "ck", "folder/", "--force"}));
    BOOST_TEST(c.troupe({"diff", "ck", "folder", "--quiet"}).code == 0, command);
  }
  c.folder.write("folder/mine.txt", "mine");
  c.check_refused({"to-hf", "ck", "folder", "--force"}, 2, "it holds 'mine.txt', which no conversion wrote");
  fs::remove(c.folder / "folder/mine.txt");
  BOOST_TEST_REQUIRE(c.troupe({"to-hf", "ck", "folder", "--force"}).code == 0);
  c.folder.write("folder/config.json", "{}");
  c.check_refused({"to-hf", "ck", "folder", "--force"}, 2, "'config.json' in it was changed");
  fs::create_directory_symlink("folder", c.folder / "link");
  fs::create_symlink("w.pt", c.folder / "link.pt");
  c.check_refused({"to-hf", "ck", "link", "--force"}, 2, "'link' cannot be replaced: it is a link");
  c.check_refused({"to-fp32", "ck", "link.pt", "--force"}, 2, "'link.pt' cannot be replaced: it is a link");
  for (const char* name : {"..", "ck/..", "."})
    c.check_refused({"to-hf", "ck", name, "--force"}, 2, "wanted the name of a folder");
}

BOOST_AUTO_TEST_CASE(the_input_is_never_replaced) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "dd"}).code == 0);
  BOOST_TEST_REQUIRE(c.troupe({"to-fp32", "ck", "w.pt"}).code == 0);
  fs::create_directory_symlink("dd", c.folder / "link");
  fs::create_directory(c.folder / "away");
  fs::create_symlink("../dd/model.safetensors", c.folder / "away/model.safetensors");
  // The command names its input in four ways: by its name within its folder, by its path, through a link to its folder,
  // and from a folder of links.
  const auto inside = check_exit(
      2, run({troupe::places::troupe_binary, "checkpoint", "to-fp32", "model.safetensors", "../dd", "--force"},
             c.folder / "dd"));
  BOOST_TEST(has(inside.err, "'../dd' cannot be replaced: "), inside.err);
  BOOST_TEST(has(inside.err, "model.safetensors', which is read"), inside.err);
  for (const auto& [from, to] : {std::pair("dd", "dd"), std::pair("link/model.safetensors", "dd"),
                                 std::pair("away", "dd"), std::pair("w.pt", "w.pt")})
    c.check_refused({"to-fp32", from, to, "--force"}, 2, std::string("'") + to + "' cannot be replaced: it contains '");
  BOOST_TEST(c.troupe({"diff", "dd", "w.pt", "--quiet"}).code == 0);
}

BOOST_AUTO_TEST_CASE(two_conversions_into_one_output_are_one_too_many) {
  const checkpoints c;
  write_sparse_safetensors(c.folder / "large.safetensors", uint64_t{1} << 28);
  for (const char* out : {"out", "out.pt"}) {
    BOOST_TEST_INFO_SCOPE(out);
    const auto room = c.folder / (std::string(".") + out + ".part");
    process first({troupe::places::troupe_binary, "checkpoint", "to-fp32", "large.safetensors", out}, c.folder.path());
    while (scratch_folder::read(room / ".lock").empty())
      BOOST_TEST_REQUIRE(first.wait_for_work(std::chrono::milliseconds(1)));
    first.send(SIGSTOP);
    c.check_refused({"to-fp32", "ck", out}, 2,
                    std::string("cannot write '") + out + "': './." + out + ".part' is in use: process ");
    BOOST_TEST(fs::exists(room));
    first.send(SIGKILL);
    BOOST_TEST(first.end().code == 128 + SIGKILL);
    BOOST_TEST(fs::exists(room));  // the next conversion removes the folder that the killed one left
    check_exit(0, c.troupe({"to-fp32", "ck", out}));
    BOOST_TEST(!fs::exists(room));
    BOOST_TEST(c.troupe({"diff", "ck", out, "--quiet"}).code == 0);
  }
  c.folder.write(".other.part/mine.txt", "mine");
  c.check_refused({"to-fp32", "ck", "other"}, 2, "'./.other.part' is in the way");
  BOOST_TEST(scratch_folder::read(c.folder / ".other.part/mine.txt") == "mine");
  BOOST_TEST(!fs::exists(c.folder / ".other.part/.lock"));
}

BOOST_AUTO_TEST_CASE(the_name_of_another_universal_folder_stays_unless_told_otherwise) {
  const checkpoints c;
  BOOST_TEST_REQUIRE(c.troupe({"to-universal", "ck", "first"}).code == 0);
  c.check_refused({"to-universal", "ck", "second"}, 2, "latest_universal' names 'first': give --force");
  BOOST_TEST(scratch_folder::read(c.folder / "latest_universal") == "first");
  BOOST_TEST(c.troupe({"to-universal", "ck", "second", "--force"}).code == 0);
  BOOST_TEST(scratch_folder::read(c.folder / "latest_universal") == "second");
  fs::remove_all(c.folder / "second");
  BOOST_TEST(c.troupe({"to-universal", "ck", "second"}).code == 0);  // `latest_universal` already names this folder
}

BOOST_AUTO_TEST_CASE(an_unknown_file_extension_is_refused_and_makes_no_folder_of_that_name) {
  const checkpoints c;
  for (const char* out : {"out.npz", "out.gguf", "out.safetensor"})
    c.check_refused({"to-fp32", "ck", out}, 2,
                    std::string("'") + out + "': wanted NAME.safetensors, NAME.pt, NAME.pth, NAME.bin or the name of");
  for (const char* out : {"out.npz/", "llama-3.1", "llama-3.1-8b"}) {
    BOOST_TEST_INFO_SCOPE(out);
    BOOST_TEST(c.troupe({"to-fp32", "ck", out}).code == 0);
    BOOST_TEST(fs::is_directory(c.folder / out));
  }
  BOOST_TEST(c.troupe({"to-fp32", "ck", "out.pth"}).code == 0);
  BOOST_TEST(fs::is_regular_file(c.folder / "out.pth"));
}

BOOST_AUTO_TEST_CASE(a_folder_may_have_a_name_that_ends_like_a_file) {
  const checkpoints c;
  for (const auto& command : std::vector<std::vector<std::string>>{{"to-hf", "ck", "hf.safetensors"},
                                                                   {"to-hf", "ck", "hf.pt"},
                                                                   {"to-fp32", "ck", "new.safetensors/"},
                                                                   {"to-fp32", "ck", "new.bin/"}}) {
    const auto r = c.troupe(command);
    BOOST_TEST(r.code == 0, command[2] << ": " << r.err);
    BOOST_TEST(fs::is_regular_file(c.folder / command[2] / "model.safetensors"), command[2]);
    BOOST_TEST(c.troupe({"diff", "ck", command[2], "--quiet"}).code == 0, command[2]);
  }
}

BOOST_AUTO_TEST_CASE(output_that_cannot_be_written_is_refused_before_the_first_byte) {
  const checkpoints c;
  const auto free = fs::space(c.folder.path()).available;
  write_sparse_safetensors(c.folder / "huge.safetensors", free / 2);
  c.check_refused({"to-fp32", "huge.safetensors", "out"}, 1, "bytes are needed, ");
  c.check_refused({"to-fp32", "huge.safetensors", "out.pt"}, 1, "are free in '.'");
  c.check_refused({"to-fp32", "ck", "nowhere/out"}, 2, "'nowhere' does not exist: make this folder first");
  c.check_refused({"to-fp32", "ck", "corpus.txt/out"}, 2, "'corpus.txt' is not a folder");
  fs::create_directory(c.folder / "locked");
  fs::permissions(c.folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  for (const char* out : {"locked/out", "locked/out.safetensors"}) {
    BOOST_TEST_INFO_SCOPE(out);
    const auto r = check_exit(1, c.troupe({"to-fp32", "ck", out}, obey_modes));
    BOOST_TEST(has(r.err, "'locked': Permission denied"), r.err);
  }
  fs::permissions(c.folder / "locked", fs::perms::owner_all);
  BOOST_TEST(fs::is_empty(c.folder / "locked"));
}

BOOST_AUTO_TEST_CASE(an_interrupt_leaves_nothing_half_written) {
  const checkpoints c;
  write_sparse_safetensors(c.folder / "large.safetensors", uint64_t{1} << 28);
  process p({troupe::places::troupe_binary, "checkpoint", "to-fp32", "large.safetensors", "out"}, c.folder.path());
  BOOST_TEST_REQUIRE(p.wait_for_work(std::chrono::milliseconds(20)));
  p.send(SIGINT);
  check_exit(130, p.end());
  const std::vector<std::string> all = {"large.safetensors"};
  BOOST_TEST(c.written() == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
