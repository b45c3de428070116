// Tests where `troupe` looks for the other programs: in its own folder, or in the Python package with which it was
// installed.
#include "apps/base/programs.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(programs)

using namespace troupe::apps;
using troupe::tests::check_error;
using troupe::tests::scratch_folder;

namespace {

namespace fs = std::filesystem;

const std::string built_with = TROUPE_LIBTORCH_VERSION, wanted = built_with.substr(0, built_with.find('+'));

/// A Python environment with a folder `bin` and, in the folder `packages`, the files that pip installs.
struct environment {
  explicit environment(std::string where = "lib/python3.11/site-packages", const std::string& version = TROUPE_VERSION)
      : packages(std::move(where)) {
    folder.write("bin/troupe", "");
    for (const char* name : {"troupe-train", "troupe-agent"}) folder.write(packages + "/troupe/bin/" + name, "");
    folder.write(packages + "/troupe-" + version + ".dist-info/METADATA", "");
  }
  void put_torch(const std::string& version) const {
    folder.write(
        packages + "/torch/version.py",
        "from typing import Optional\n__all__ = ['__version__']\n__version__ = '" + version + "'\ndebug = False\n");
  }
  [[nodiscard]] fs::path bin() const { return folder / "bin"; }
  [[nodiscard]] std::string in_package(const std::string& name) const {
    return (folder / (packages + "/troupe/bin/" + name)).string();
  }

  scratch_folder folder;
  std::string packages;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_program_beside_ours_comes_first_and_needs_no_torch_that_python_knows) {
  const environment e;
  e.folder.write("bin/troupe-train", "");
  const auto found = trainer_program(e.bin(), "troupe train");
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST(found->string() == (e.bin() / "troupe-train").string());
}

BOOST_AUTO_TEST_CASE(programs_are_found_in_the_package_that_pip_put_beside_bin) {
  for (const char* packages : {"lib/python3.11/site-packages", "lib/python3.14/site-packages",
                               "lib64/python3.13/site-packages", "lib/python3.13/dist-packages", "."}) {
    const environment e(packages);
    e.put_torch(built_with);
    const auto agent = other_program(e.bin(), "troupe-agent");
    BOOST_TEST_REQUIRE(agent.has_value(), packages);
    BOOST_TEST(fs::equivalent(*agent, e.in_package("troupe-agent")), packages);
    const auto trainer = trainer_program(e.bin(), "troupe train");
    BOOST_TEST_REQUIRE(trainer.has_value(), packages);
    BOOST_TEST(fs::equivalent(*trainer, e.in_package("troupe-train")), packages);
  }
}

BOOST_AUTO_TEST_CASE(the_same_torch_built_for_other_devices_will_do) {
  const environment e;
  e.put_torch(wanted + "+cpu");
  BOOST_TEST(trainer_program(e.bin(), "troupe train").has_value());
}

BOOST_AUTO_TEST_CASE(no_torch_and_another_torch_are_one_sentence_each) {
  const environment e;
  const auto place = (e.folder / "lib/python3.11/site-packages").string();
  const auto refused = [&](const std::string& got) {
    check_error(trainer_program(e.bin(), "troupe train"), "troupe train needs torch " + wanted + " in '" + place +
                                                              "', got " + got + ": pip install 'troupe[train]'");
  };
  refused("none");
  for (const char* other : {"2.10.0+cu130", "2.11.1", "2.11", "12.11.0"}) {
    e.put_torch(other);
    refused(std::string(other).substr(0, std::string(other).find('+')));
  }
  e.folder.write("lib/python3.11/site-packages/torch/version.py", "no version\n");
  refused("none");
}

BOOST_AUTO_TEST_CASE(of_two_pythons_the_one_with_the_right_torch_is_taken) {
  const environment e("lib/python3.13/site-packages");
  e.put_torch(wanted);
  for (const char* name : {"troupe/bin/troupe-train", "troupe-" TROUPE_VERSION ".dist-info/METADATA"})
    e.folder.write(std::string("lib/python3.11/site-packages/") + name, "");
  const auto found = trainer_program(e.bin(), "troupe train");
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST(found->string() == e.in_package("troupe-train"));
}

BOOST_AUTO_TEST_CASE(a_package_of_another_version_is_none) {
  const environment e("lib/python3.11/site-packages", "0.0.9");
  check_error(trainer_program(e.bin(), "troupe train"),
              "troupe train: the program troupe-train is not in '" + e.bin().string() +
                  "': install Debian's package `troupe-train`, or Troupe's wheel");
}

BOOST_AUTO_TEST_SUITE_END()
