// Tests folders that are not checkpoints, and folders in which none can be written: each causes one clear sentence, and
// nothing is written.
#include <fmt/format.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/commit/folder_lock.hpp"
#include "checkpoint/commit/retention.hpp"
#include "checkpoint/native/manifest_text.hpp"
#include "checkpoint/native/native_source.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(bad_folder)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

constexpr auto bad = error_kind::bad_input;

/// Makes this thread alone access files as a user without special rights during the lifetime of the object.
class as_nobody {
 public:
  as_nobody() : before_(static_cast<uid_t>(::setfsuid(65534))) {}
  ~as_nobody() { ::setfsuid(before_); }
  as_nobody(const as_nobody&) = delete;
  as_nobody& operator=(const as_nobody&) = delete;

 private:
  uid_t before_;
};

size_t things_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::recursive_directory_iterator(folder), {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(folders_that_are_not_checkpoints_are_refused_by_name) {
  const scratch_folder f;
  auto& files = real_files();
  const auto refused = [&](const fs::path& path, const std::string& words) {
    const auto before = things_in(f.path());
    for (const bool fallback : {false, true})
      check_failed(open_checkpoint(files, path, {.fallback_to_previous = fallback}), bad, words);
    BOOST_TEST(things_in(f.path()) == before);
  };
  refused(f / "nowhere", "/nowhere'");
  fs::create_directory(f / "empty");
  refused(f / "empty", "/empty' is not a checkpoint: it contains neither 'manifest.json' nor 'latest'");
  refused(f.write("a_file", "text"), "/a_file");
  f.write("other/manifest.json", "{\"manifest_version\": 3}");
  refused(f / "other", "/other/manifest.json': it does not begin like the manifest of a Troupe checkpoint");
  f.write("names_nothing/latest", "step-00000012\n");
  refused(f / "names_nothing", "/names_nothing/latest' names 'step-00000012'");
  f.write("by_hand/latest", "step-00000012 \r\n");
  refused(f / "by_hand", "/by_hand/latest' names 'step-00000012'");
  f.write("escapes/latest", "../names_nothing\n");
  refused(f / "escapes", "/escapes/latest' does not begin with the name of a checkpoint");
  f.write("deepspeed/latest", "global_step10");
  refused(f / "deepspeed", "/deepspeed/latest' names 'global_step10'");
  f.write("huge/latest", std::string(10'000, 's'));
  check_failed(open_checkpoint(files, f / "huge"), error_kind::limit, "/huge/latest' has 10000 bytes, at most 4096");
}

BOOST_AUTO_TEST_CASE(names_in_a_manifest_never_leave_its_folder) {
  const scratch_folder f;
  const auto folder = check_ok(save_sample(real_files(), f / "c", 1, sample_tensors(1), 1));
  fs::copy_file(*folder / "shard-00000.bin", f / "shard-00000.bin");
  const auto text = scratch_folder::read(*folder / "manifest.json");
  const auto body = text.substr(text.find('\n') + 1);
  const std::vector<std::string> names{"../../shard-00000.bin",
                                       (f / "shard-00000.bin").string(),
                                       "./shard-00000.bin",
                                       "x/shard-00000.bin",
                                       "..",
                                       ".",
                                       "",
                                       ".lock",
                                       "manifest.json",
                                       "shard 0.bin"};
  for (const auto& name : names) {
    auto other = body;
    const std::string was = "\"shard-00000.bin\"";
    other.replace(other.find(was), was.size(), "\"" + name + "\"");
    f.write("c/step-00000001/manifest.json", sealed(other));
    check_failed(open_folder(real_files(), *folder), bad, "is not a plain file name in its folder");
    check_failed(verify_checkpoint(real_files(), *folder), bad, "is not a plain file name in its folder");
  }
}

BOOST_AUTO_TEST_CASE(links_and_pipes_in_place_of_files_are_not_followed) {
  const scratch_folder f;
  const auto folder = check_ok(save_sample(real_files(), f / "c", 1, sample_tensors(1), 1));
  for (const auto& path : {*folder / "shard-00000.bin", *folder / "manifest.json", f / "c/latest"}) {
    const auto real = f / "moved";
    fs::rename(path, real);
    fs::create_symlink(real, path);
    check_failed(open_checkpoint(real_files(), f / "c"), bad, path.string());
    fs::remove(path);
    BOOST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    // Opening a FIFO must fail at once instead of waiting for a writer.
    check_failed(open_checkpoint(real_files(), f / "c"), bad, path.string());
    fs::remove(path);
    fs::create_directory(path);
    check_failed(open_checkpoint(real_files(), f / "c"), bad, path.string());
    fs::remove(path);
    fs::rename(real, path);
  }
  check_newest(real_files(), f / "c", 1, sample_tensors(1));
  // A save must not write through links in its folder, and clean-up and retention must leave links unchanged.
  const auto aside = f / "elsewhere";
  fs::create_directory(aside);
  f.write("elsewhere/mine", "as it was");
  const auto link = f / ("c/step-00000002.writing-" + to_hex(random_save_id()));
  fs::create_directory_symlink(aside, link);
  fs::create_directory_symlink(aside, f / "c/step-00000000");
  const auto left = check_ok(remove_leftovers(real_files(), f / "c"));
  BOOST_TEST(left->empty());
  check_ok(save_sample(real_files(), f / "c", 3, sample_tensors(1), 1));
  check_ok(apply_retention(real_files(), f / "c", {.keep_last = 1}));
  BOOST_TEST(scratch_folder::read(aside / "mine") == "as it was");
  BOOST_TEST(fs::is_symlink(f / "c/step-00000000"));
  // If a checkpoint's folder is a link to a folder elsewhere, a save replaces the link and leaves its target.
  fs::rename(f / "c/step-00000003", f / "far");
  fs::create_directory_symlink(f / "far", f / "c/step-00000003");
  check_newest(real_files(), f / "c", 3, sample_tensors(1));
  check_ok(save_sample(real_files(), f / "c", 3, sample_tensors(2), 1));
  check_newest(real_files(), f / "c", 3, sample_tensors(2));
  const auto far = check_ok(open_folder(real_files(), f / "far"));
  check_loads(real_files(), *far, sample_tensors(1), 1);
  fs::create_directory_symlink(f / "far", f / "c/step-00000004");
  check_failed(remove_checkpoint(real_files(), f / "c", "step-00000004"), bad, "it is not a folder");
  BOOST_TEST(fs::is_symlink(f / "c/step-00000004"));
  check_ok(open_folder(real_files(), f / "far"));
}

BOOST_AUTO_TEST_CASE(missing_permission_is_reported_with_the_path_and_nothing_is_written) {
  const scratch_folder f;
  fs::permissions(f.path(), fs::perms(0755));
  check_ok(save_sample(real_files(), f / "c", 1, sample_tensors(1), 1));
  fs::permissions(f / "c", fs::perms(0555));
  const auto shard = f / "c/step-00000001/shard-00000.bin";
  const auto before = things_in(f.path());
  const std::string denied = "Permission denied";
  {
    const as_nobody user;
    check_newest(real_files(), f / "c", 1, sample_tensors(1));  // reading requires no right to write
    check_failed(checkpoint_save::begin(real_files(), f / "c", 2, 1), bad, denied);
    check_failed(checkpoint_save::begin(real_files(), f / "new/folder", 2, 1), bad, (f / "new").string());
    check_failed(claim_folder(f / "c"), bad, denied);
    check_failed(remove_checkpoint(real_files(), f / "c", "step-00000001"), bad, denied);
  }
  fs::permissions(shard, fs::perms(0000));
  {
    const as_nobody user;
    check_failed(open_checkpoint(real_files(), f / "c"), bad, shard.string() + "': " + denied);
  }
  fs::permissions(f / "c", fs::perms(0000));
  {
    const as_nobody user;
    check_failed(open_checkpoint(real_files(), f / "c"), bad, denied);
    check_failed(remove_leftovers(real_files(), f / "c"), bad, denied);
  }
  fs::permissions(f / "c", fs::perms(0755));
  BOOST_TEST(things_in(f.path()) == before);
}

BOOST_AUTO_TEST_CASE(too_little_space_is_reported_with_needed_and_free_bytes_before_anything_is_written) {
  const scratch_folder f;
  const auto free = check_ok(real_files().free_bytes(f.path()));
  const uint64_t needed = uint64_t{1} << 60;
  const auto refused = checkpoint_save::begin(real_files(), f / "runs/c", 1, needed);
  check_failed(refused, error_kind::no_space,
               fmt::format("a checkpoint of {} bytes does not fit into '{}", needed, (f / "runs/c").string()));
  check_failed(refused, error_kind::no_space, " bytes are free");
  BOOST_TEST(things_in(f.path()) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
