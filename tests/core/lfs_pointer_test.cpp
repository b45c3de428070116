// Tests the recognition of git-lfs pointer files, which may be stored in place of the files themselves.
#include "core/lfs_pointer.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(lfs_pointer)

using namespace troupe;

namespace {

constexpr std::string_view pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

core::result<void> looked_at(std::string_view content) {
  const tests::scratch_folder at;
  const auto file = core::source_file::open(at.write("model.safetensors", content));
  BOOST_REQUIRE(file.has_value());
  return core::refuse_lfs_pointer(*file);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pointer_is_refused_with_the_size_of_the_file_and_the_command_that_fetches_it) {
  const auto got = looked_at(pointer);
  BOOST_REQUIRE(!got);
  BOOST_TEST((got.error().kind == core::error_kind::bad_input));
  BOOST_TEST(got.error().text.ends_with(
                 "model.safetensors' is a Git LFS pointer and not the file itself, which has 12345 bytes: "
                 "run `git lfs pull` in that folder to fetch it"),
             got.error().text);
}

BOOST_AUTO_TEST_CASE(other_files_are_none) {
  for (const std::string& content :
       {std::string(), std::string("version"), std::string(5000, 'x'), std::string("a b\n")})
    BOOST_TEST_CONTEXT(content) BOOST_TEST(looked_at(content).has_value());
  // This text begins like a pointer but is longer than any pointer.
  BOOST_TEST(looked_at(std::string(pointer) + std::string(core::max_lfs_pointer_bytes, 'x')).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
