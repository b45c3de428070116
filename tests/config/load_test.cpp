// What a whole file becomes.
#include "config/load.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

using namespace troupe;
using namespace troupe::config;

BOOST_AUTO_TEST_SUITE(load)

BOOST_AUTO_TEST_CASE(the_smallest_file_loads) {
  const auto l = load_text(smallest, "job.yaml", "/base");
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  const job_config& c = l->config;
  BOOST_TEST(c.model.hugging_face_json ==
             R"({"model_type":"gpt2","vocab_size":256,"n_layer":2,"n_embd":64,"n_head":4,"n_positions":64})");
  BOOST_TEST(c.data.text == "/base/corpus.txt");
  BOOST_TEST(c.data.tokenizer == "bytes");
  BOOST_TEST(c.parallel.ranks() == 2U);
  BOOST_TEST(c.seed == 1U);
  BOOST_TEST(c.steps == 100U);
  BOOST_TEST(c.train_batch_size == 8U);
  BOOST_TEST(c.gradient_accumulation_steps == 1U);
  BOOST_TEST(c.optimizer.type == "adamw");
  BOOST_TEST(c.optimizer.lr == 1e-3);
  BOOST_TEST(c.zero_optimization.stage == 3U);
  BOOST_TEST(c.zero_optimization.stage3_param_persistence_threshold == 0U);
  BOOST_TEST(c.zero_optimization.overlap_comm);
  BOOST_TEST(c.gradient_clipping == 1.0);
  BOOST_TEST(l->warnings.empty(), render(l->warnings));
}

BOOST_AUTO_TEST_SUITE_END()
