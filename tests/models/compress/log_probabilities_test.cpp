// Compares a walk's log-probabilities with its own loss and with the loss of transformers
// (tests/peer/make_model_fixtures.py).
#include "models/compress/unit_walk.hpp"

#include <cmath>
#include <cstring>

#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "models/families/hugging_face.hpp"
#include "tests/models/model_fixture.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(log_probabilities)

using namespace troupe;
using namespace troupe::models;

namespace {

template <class T>
std::vector<T> values_in(const formats::safetensors_file& file, const std::string& name) {
  const auto* entry = file.find(name);
  BOOST_REQUIRE_MESSAGE(entry != nullptr, name << " is missing from the fixture");
  const auto bytes = take(file.bytes(*entry));
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(log_probabilities_of_all_tokens_are_the_loss_of_transformers) {
  for (const std::string name : {"gpt2", "llama", "gemma2"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto folder = std::filesystem::path(troupe::places::source_dir) / "tests" / "models" / "fixtures" / name;
    const auto expected = take(formats::safetensors_file::open(folder / "expected.safetensors"));
    const model_spec spec = take(read_spec(folder));
    const auto source = take(checkpoint::open_source(folder));
    const auto* tokens = expected.find("tokens");
    BOOST_TEST_REQUIRE(tokens != nullptr);
    const token_windows windows{.tokens = values_in<int64_t>(expected, "tokens"),
                                .columns = static_cast<uint64_t>(tokens->shape[1]) - 1};
    const tests::scratch_folder hidden;
    const auto walk = take(unit_walk::open(spec, source, windows, hidden.path(), {}));
    const auto each = take(walk->log_probabilities());
    BOOST_TEST_REQUIRE(each.size() == windows.count() * windows.columns);
    double sum = 0;
    for (const float x : each) sum -= static_cast<double>(x);
    const double mean = sum / static_cast<double>(each.size());
    BOOST_TEST(std::abs(mean / static_cast<double>(values_in<float>(expected, "loss").front()) - 1) < 1e-5);
    BOOST_TEST(std::abs(mean / take(walk->loss()) - 1) < 1e-6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
