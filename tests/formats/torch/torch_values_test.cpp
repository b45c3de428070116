// Tests values other than plain tensors that torch.save can write (tests/peer/make_checkpoint_fixtures.py), in both
// container formats.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "formats/torch/archive.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(torch_values)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

const std::filesystem::path fixtures =
    std::filesystem::path(troupe::places::source_dir) / "tests/formats/fixtures/torch";

}  // namespace

BOOST_AUTO_TEST_CASE(scalars_attributes_views_and_unknown_values_are_distinguished) {
  for (const char* name : {"values.pt", "values_legacy.pt"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto file = check_ok(torch_archive::open(fixtures / name));
    const auto at = [&](const char* key) { return file->tree().find(file->root(), key).value(); };
    BOOST_TEST(file->integer(at("signed")).value() == -7, name);
    BOOST_TEST(file->integer(at("unsigned")).value() == 200, name);
    BOOST_TEST((file->shape(at("size")).value() == std::vector<int64_t>{2, 3}), name);
    const auto attributed = check_ok(file->tensor(at("attributed")));
    BOOST_TEST((attributed->shape == std::vector<int64_t>{2, 3}), name);
    check_ok(file->tensor(at("parameter")));
    const auto view = file->tensor(at("view")), turned = file->tensor(at("turned"));
    check_ok(view);
    check_ok(turned);
    BOOST_TEST(view->storage == turned->storage, name);
    BOOST_TEST(view->begin == turned->begin + 4 * sizeof(float), name);
    BOOST_TEST((turned->strides == std::vector<int64_t>{1, 4}), name);
    BOOST_TEST((!turned->is_contiguous() && view->is_contiguous()), name);
    // An unknown global is not executed but listed, and a file is refused, with the global's name, only if a requested
    // value depends on it.
    BOOST_TEST(file->unknown_globals() == std::vector<std::string>{"fractions.Fraction"},
               boost::test_tools::per_element());
    check_failed(file->tensor(at("unknown")), core::error_kind::bad_input, "fractions.Fraction");
    check_failed(file->integer(at("unknown")), core::error_kind::bad_input, "fractions.Fraction");
  }
}

BOOST_AUTO_TEST_SUITE_END()
