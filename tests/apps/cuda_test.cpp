// Tests `device: cuda` at the command line, on a machine that lacks CUDA or a part of it: the command prints one
// sentence at once and starts no run.
#include <filesystem>
#include <regex>
#include <set>

#include "tests/apps/topology.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(cuda)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const std::string on_gpu = smallest + "device: cuda\n";

/// Returns the examples that README.md, the pages and the Makefile train on a GPU.
std::set<std::string> examples_on_gpus() {
  const fs::path root = troupe::places::source_dir;
  std::vector<fs::path> files = {root / "README.md", root / "Makefile"};
  for (const auto& page : fs::directory_iterator(root / "docs"))
    if (page.path().extension() == ".md") files.push_back(page.path());
  static const std::regex command("examples/(\\w+\\.yaml)[^\n]*device=cuda");
  std::set<std::string> out;
  for (const auto& file : files) {
    const std::string text = scratch_folder::read(file);
    for (std::sregex_iterator at(text.begin(), text.end(), command), end; at != end; ++at) out.insert(at->str(1));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_examples_that_the_pages_train_on_a_gpu_are_planned_for_one) {
  auto examples = examples_on_gpus();
  BOOST_TEST((examples.contains("smallest.yaml") && examples.contains("gcide.yaml")));
  examples.insert("elastic.yaml");
  const scratch_folder folder;
  for (const auto& example : examples) {
    BOOST_TEST_INFO_SCOPE(example);
    const auto file = fs::path(troupe::places::source_dir) / "examples" / example;
    const auto r = check_exit(
        0, run({troupe::places::troupe_binary, "plan", file.string(), "--set", "device=cuda"}, folder.path()));
    BOOST_TEST(r.out.find("device memory") != std::string::npos, r.out);
  }
}

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
  const auto r = check_exit(1, run({(f.folder / "troupe").string(), "train", "job.yaml"}, f.folder.path()));
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
  const auto r = check_exit(1, run({(f.folder / "troupe").string(), "train", "job.yaml"}, f.folder.path()));
  BOOST_TEST(r.err.find("device: cuda requires libcunothing.so.1, which this system lacks: `make setup DEVICE=cuda` "
                        "installs it beside LibTorch") != std::string::npos,
             r.err);
}

BOOST_AUTO_TEST_SUITE_END()
