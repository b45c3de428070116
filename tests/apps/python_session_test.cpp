// Tests the parts of Python's sessions that need no Python: configurations in every form, sessions from their opening
// to their end, and the folder of a run.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "apps/python/training/job_settings.hpp"
#include "apps/python/training/training_session.hpp"
#include "config/load.hpp"
#include "tests/apps/topology.hpp"
#include "tests/check_ok.hpp"
#include "tests/made_up_text.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(python_session)

using namespace troupe;
using namespace troupe::tests;
using apps::job_settings;
using apps::training_session;

namespace {

const std::function<bool()> always = [] { return true; };

/// Owns a folder with a text and a job file, whose runs write to the folder `out`.
struct job_folder {
  job_folder() {
    folder.write("corpus.txt", made_up_text(20000));
    folder.write("job.yaml", smallest);
  }
  [[nodiscard]] job_settings settings() const {
    job_settings out;
    out.from = folder.path() / "job.yaml";
    out.set = {"output=" + (folder.path() / "out").string(), "telemetry.trace=false"};
    return out;
  }
  scratch_folder folder;
};

/// Trains `s` to its last step, as troupe.train does.
apps::run_summary trained(training_session& s) {
  while (s.session().steps_done() < s.loaded().config.steps) {
    const auto r = *check_ok(s.step());
    check_ok(s.kept().between_steps(s.session(), r.save_asked));
  }
  return *check_ok(s.kept().end(s.session(), always));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_a_text_and_keys_give_the_same_job) {
  const job_folder f;
  const std::string text = (f.folder.path() / "corpus.txt").string();
  job_settings from_file = f.settings();
  from_file.steps = 7;
  const auto file = *check_ok(apps::load_job(from_file));
  BOOST_TEST(file.config.steps == 7u);

  job_settings from_text = from_file;
  from_text.from = apps::yaml_text{smallest};
  from_text.set.push_back("data.text=" + text);
  BOOST_TEST(config::effective_yaml(*check_ok(apps::load_job(from_text))) == config::effective_yaml(file));

  config::job_builder keys;
  keys.set("model", config::job_value::mapping({{"model_type", "gpt2"},
                                                {"n_layer", 2},
                                                {"n_embd", 64},
                                                {"n_head", 4},
                                                {"n_positions", 64},
                                                {"vocab_size", 256},
                                                {"embd_pdrop", 0},
                                                {"attn_pdrop", 0},
                                                {"resid_pdrop", 0}}));
  keys.set("data.text", text).set("steps", 3).set("train_micro_batch_size_per_gpu", 4);
  job_settings from_keys;
  from_keys.from = keys;
  BOOST_TEST(check_ok(apps::load_job(from_keys))->config.steps == 3u);
}

BOOST_AUTO_TEST_CASE(jobs_of_several_processes_and_pages_are_refused_by_name) {
  const job_folder f;
  auto several = f.settings(), page = f.settings(), wrong = f.settings();
  several.set.push_back("cluster.processes=2");
  page.set.push_back("cluster.page=8080");
  wrong.set.push_back("stepz=1");
  check_failed(apps::load_job(several), error_kind::bad_input, "cluster.processes: wanted one");
  check_failed(apps::load_job(page), error_kind::bad_input, "cluster.page: wanted none");
  check_failed(apps::load_job(wrong), error_kind::bad_input, "stepz");
}

BOOST_AUTO_TEST_CASE(a_session_without_a_folder_steps_evaluates_and_closes) {
  const job_folder f;
  auto settings = f.settings();
  settings.set.push_back("data.validation_fraction=0.1");
  training_session s;
  check_ok(s.open(settings, {}, always));
  BOOST_TEST(s.is_open());
  BOOST_TEST(!s.keeps_folder());
  const double first = check_ok(s.step())->loss;
  for (int i = 0; i < 5; ++i) check_ok(s.step());
  BOOST_TEST(check_ok(s.evaluate(2, "", always))->value_or(99.0) < first);
  BOOST_TEST(!check_ok(s.evaluate(2, "", [] { return false; }))->has_value());
  s.close();
  BOOST_TEST(!s.is_open());
  s.close();
}

BOOST_AUTO_TEST_CASE(an_opening_that_is_interrupted_leaves_no_session) {
  const job_folder f;
  training_session s;
  check_failed(s.open(f.settings(), {}, [] { return false; }), error_kind::stopped);
  BOOST_TEST(!s.is_open());
}

BOOST_AUTO_TEST_CASE(a_kept_run_saves_its_end_and_resumes) {
  const job_folder f;
  auto settings = f.settings();
  settings.set.push_back("checkpoint.every_steps=2");
  settings.steps = 3;
  apps::session_wishes wishes;
  wishes.keeps_folder = true;
  {
    training_session s;
    check_ok(s.open(settings, wishes, always));
    const auto r = trained(s);
    BOOST_TEST(r.steps == 3u);
    BOOST_TEST(r.trained == 3u);
    BOOST_TEST(r.folder.string() == (f.folder.path() / "out").string());
    BOOST_TEST(std::filesystem::exists(r.checkpoint / "manifest.json"));
    BOOST_TEST(std::filesystem::exists(r.report));
  }
  settings.steps = 5;
  training_session s;
  check_ok(s.open(settings, wishes, always));
  BOOST_TEST(s.session().steps_done() == 3u);
  const auto r = trained(s);
  BOOST_TEST(r.steps == 5u);
  BOOST_TEST(r.trained == 2u);

  const job_folder other;
  auto straight = other.settings();
  straight.set.push_back("checkpoint.every_steps=2");
  straight.steps = 5;
  training_session whole;
  check_ok(whole.open(straight, wishes, always));
  BOOST_TEST(trained(whole).loss.value_or(0) == r.loss.value_or(1));
}

BOOST_AUTO_TEST_CASE(a_run_that_is_left_saves_what_it_has_trained) {
  const job_folder f;
  auto settings = f.settings();
  settings.set.push_back("checkpoint.every_steps=50");
  apps::session_wishes wishes;
  wishes.keeps_folder = true;
  {
    training_session s;
    check_ok(s.open(settings, wishes, always));
    for (int i = 0; i < 2; ++i) check_ok(s.step());
    s.kept().leave(s.session(), {});
  }
  training_session s;
  check_ok(s.open(settings, wishes, always));
  BOOST_TEST(s.session().steps_done() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
