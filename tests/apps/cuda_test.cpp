// Tests `device: cuda` at the command line, on a machine that lacks a part of it: one sentence, at once, and no run.
#include <filesystem>

#include "tests/apps/topology.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(cuda)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const std::string on_gpu = smallest + "device: cuda\n";

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_for_a_gpu_ends_with_the_sentence_that_names_what_is_missing) {
  const command_folder f(on_gpu);
  const auto r = f.troupe({"train", "job.yaml"});
  const fs::path library = fs::path(troupe::places::troupe_binary).parent_path() / "libtroupe_cuda.so";
  if (r.code == 0) return say_skipped("what a missing driver leads to", "this machine has a GPU that works");
  BOOST_TEST(r.code == 1);
  BOOST_TEST(sentences_of(r.err) == 1U, r.err);
  BOOST_TEST(!fs::exists(f.folder / "out"));
  const auto says = [&](const std::string& text) { return r.err.find(text) != std::string::npos; };
  if (!fs::exists(library)) {
    BOOST_TEST(says("device: cuda requires libtroupe_cuda.so, which is not in '"), r.err);
    BOOST_TEST(says("`make build DEVICE=cuda` builds it"), r.err);
    return say_skipped("devices of kind cuda", "there was no nvcc, so libtroupe_cuda.so is not built");
  }
  if (says("which this system lacks")) {
    BOOST_TEST(says("`make setup DEVICE=cuda` installs it"), r.err);
    return say_skipped("opening libtroupe_cuda.so", "NVIDIA's libraries are not there; make setup DEVICE=cuda");
  }
  BOOST_TEST((says("device cuda:0: no NVIDIA driver is loaded") || says("driver is too old") || says("no GPU")), r.err);
}

BOOST_AUTO_TEST_CASE(a_library_of_another_build_is_refused) {
  const command_folder f(on_gpu);
  const fs::path program = fs::path(troupe::places::troupe_binary).parent_path();
  for (const char* name : {"troupe", "troupe-train"}) fs::copy_file(program / name, f.folder / name);
  f.folder.write("nothing.c", "");
  run({"/usr/bin/cc", "-shared", "-o", "libtroupe_cuda.so", "nothing.c"}, f.folder.path());
  const auto r = run({(f.folder / "troupe").string(), "train", "job.yaml"}, f.folder.path());
  BOOST_TEST(r.code == 1);
  BOOST_TEST(r.err.find("libtroupe_cuda.so is of another build of Troupe than this program: `make build DEVICE=cuda` "
                        "builds both") != std::string::npos,
             r.err);
}

BOOST_AUTO_TEST_CASE(a_missing_library_of_nvidias_is_named_with_the_command_that_installs_it) {
  const command_folder f(on_gpu);
  const fs::path program = fs::path(troupe::places::troupe_binary).parent_path();
  for (const char* name : {"troupe", "troupe-train"}) fs::copy_file(program / name, f.folder / name);
  f.folder.write("nothing.c", "void nothing(void) {}\n");
  f.folder.write("uses.c", "void nothing(void);\nvoid uses(void) { nothing(); }\n");
  run({"/usr/bin/cc", "-shared", "-Wl,-soname,libcunothing.so.1", "-o", "libcunothing.so", "nothing.c"},
      f.folder.path());
  run({"/usr/bin/cc", "-shared", "-o", "libtroupe_cuda.so", "uses.c", "libcunothing.so"}, f.folder.path());
  const auto r = run({(f.folder / "troupe").string(), "train", "job.yaml"}, f.folder.path());
  BOOST_TEST(r.code == 1);
  BOOST_TEST(r.err.find("device: cuda requires libcunothing.so.1, which this system lacks: `make setup DEVICE=cuda` "
                        "installs it beside LibTorch") != std::string::npos,
             r.err);
}

BOOST_AUTO_TEST_SUITE_END()
