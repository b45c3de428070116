// Compares a model whose pruning is made permanent with the result of DeepSpeed 0.19.6's `redundancy_clean`, by the
// fixture of tests/peer/make_cleaned_fixture.py. Where the two differ on purpose, the comment of
// the test describes the difference.
#include <cmath>

#include "apps/compress/cleaned_checkpoint.hpp"
#include "core/tensor_view.hpp"
#include "formats/source/source_reader.hpp"
#include "job/compression/clean.hpp"
#include "kernels/compress/pruning.hpp"
#include "tests/base64.hpp"
#include "tests/parity/compressed_by_the_peer.hpp"

BOOST_AUTO_TEST_SUITE(deepspeed_clean)

using namespace troupe;
using namespace troupe::tests;

namespace {

const json& fixture() {
  static const json all = peers_fixture("cleaned.json");
  return all;
}

struct tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using tensors = std::map<std::string, tensor>;

tensors weights_in(const formats::tensor_source& s) {
  tensors out;
  formats::source_reader reader(s);
  for (const auto& t : s.tensors) {
    if (t.kind == formats::tensor_kind::moment) continue;
    auto& [shape, values] = out[t.name];
    shape = t.shape;
    values.resize(core::numel_of(t.shape));
    const auto read = reader.read_as(core::dtype::f32, t, 0, values.size(), std::as_writable_bytes(std::span(values)));
    BOOST_TEST_REQUIRE(read.has_value());
  }
  return out;
}

/// Owns the checkpoint of a run without steps, cleaned by the code of `troupe compress --clean`.
struct cleaned_run {
  peers_job job{std::string(129, '-')};
  core::result<apps::cleaned_checkpoint> cleaned;

  explicit cleaned_run(const json& run) : cleaned(clean(job, run)) {}

  [[nodiscard]] tensors now() const {
    BOOST_REQUIRE_MESSAGE(cleaned.has_value(), (cleaned ? "" : cleaned.error().text));
    return weights_in(cleaned->now.source);
  }
  [[nodiscard]] tensors before() const { return weights_in(*cleaned->before); }

 private:
  static core::result<apps::cleaned_checkpoint> clean(const peers_job& job, const json& run) {
    const auto folder = saved(job, *job.begin(section_of(run)), run);
    auto opened = apps::open_described({.path = folder.string(), .tag = {}, .map = {}}, {});
    BOOST_TEST_REQUIRE(opened.has_value());
    return apps::clean(std::move(*opened));
  }
};

void check_equal(const tensor& got, const json& wanted) {
  BOOST_TEST((got.shape == wanted["shape"].get<std::vector<int64_t>>()));
  const auto values = numbers_in(wanted["values"].get<std::string>());
  BOOST_TEST_REQUIRE(got.values.size() == values.size());
  float largest = 0;
  for (size_t i = 0; i < values.size(); ++i) largest = std::max(largest, std::fabs(got.values[i] - values[i]));
  BOOST_TEST(largest <= 1e-6F);
}

const json& run_named(const std::string& name) {
  const auto& all = fixture()["runs"];
  const auto at = std::ranges::find_if(all, [&](const json& run) { return run["name"] == name; });
  BOOST_TEST_REQUIRE((at != all.end()));
  return *at;
}

}  // namespace

BOOST_AUTO_TEST_CASE(cleaned_weights_are_the_peers_with_and_without_related_modules) {
  BOOST_TEST_REQUIRE(fixture()["runs"].size() == 10U);
  for (const auto& run : fixture()["runs"]) BOOST_TEST_CONTEXT(run["name"]) {
      const cleaned_run ours(run);
      const auto now = ours.now(), before = ours.before();
      size_t changed = 0;
      for (const auto& [name, weight] : now) BOOST_TEST_CONTEXT(name) {
          if (run["tensors"].contains(name)) {
            check_equal(weight, run["tensors"][name]);
            ++changed;
          } else {
            BOOST_TEST((weight.values == before.at(name).values));
          }
        }
      BOOST_TEST(changed == run["tensors"].size());
    }
}

// DeepSpeed accumulates the masks of all entries of a group, and cuts the related modules of later entries by the first
// entry's mask.
BOOST_AUTO_TEST_CASE(related_modules_of_every_entry_are_cut_by_its_own_mask) {
  const auto& two_entries = fixture()["differences"]["two_entries"];
  BOOST_TEST(two_entries["rows"] != two_entries["columns"]);
  const auto apart = cleaned_run(two_entries).now();
  for (const auto& [name, wanted] : run_named("rows by l1, related modules cut")["tensors"].items())
    check_equal(apart.at(name), wanted);
}

// DeepSpeed divides the rows of packed queries, keys and values into as many blocks as there are heads: with three
// heads it drops all keys.
BOOST_AUTO_TEST_CASE(of_packed_queries_keys_and_values_each_loses_the_heads_that_go) {
  const auto& packed_heads = fixture()["differences"]["packed"];
  const auto peers = packed_heads["rows"].get<std::vector<uint64_t>>();
  BOOST_TEST(std::ranges::none_of(peers, [](uint64_t row) { return row >= 24 && row < 48; }));
  const cleaned_run ours(packed_heads);
  BOOST_TEST_REQUIRE(!ours.cleaned.has_value());
  BOOST_TEST(ours.cleaned.error().text.find("cannot describe fewer heads") != std::string::npos);
  const auto s = ours.job.begin(section_of(packed_heads));
  const auto& layers = s->table().layers;
  const auto packed = std::ranges::find(layers, "transformer.h.0.attn.c_attn", &core::layer_info::name);
  BOOST_TEST_REQUIRE((packed != layers.end()));
  const std::vector<uint8_t> kept = {1, 0, 1};
  const auto rows = job::rows_of_heads(*packed, kernels::packed_mask(kept), 3);
  BOOST_TEST(rows.size() == peers.size());
  for (const uint64_t row : rows) BOOST_TEST_CONTEXT("row " << row) BOOST_TEST(row % 24 / 8 != 1U);
}

BOOST_AUTO_TEST_SUITE_END()
