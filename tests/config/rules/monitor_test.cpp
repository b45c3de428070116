// Tests the names by which MLflow and W&B know a run: which ones are accepted, and errors.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(monitor)

using namespace troupe::config;

namespace {

std::string line_9(const std::string& line) { return errors_of(smallest + line + "\n"); }

}  // namespace

BOOST_AUTO_TEST_CASE(names_that_mlflow_and_wandb_refuse_are_refused_before_the_run) {
  BOOST_TEST(line_9("mlflow: {enabled: true, experiment: ''}") ==
             "j.yaml:9:37: error: mlflow.experiment: wanted a name of one line without blanks around it, got ''\n");
  BOOST_TEST(line_9("mlflow: {enabled: true, experiment: ' a'}") ==
             "j.yaml:9:37: error: mlflow.experiment: wanted a name of one line without blanks around it, got ' a'\n");
  BOOST_TEST(line_9("mlflow: {enabled: true, run_name: \"a\\nb\"}") ==
             "j.yaml:9:35: error: mlflow.run_name: wanted a name of one line, got 'a?b'\n");
  for (const std::string sign : {"/", "\\", "#", "?", "%", ":"}) {
    BOOST_TEST_INFO_SCOPE(sign);
    BOOST_TEST(line_9("wandb: {enabled: true, project: 'a" + sign + "b'}") ==
               "j.yaml:9:33: error: wandb.project: wanted a name of at most 128 bytes without /\\#?%:, which W&B "
               "refuses, got 'a" +
                   sign + "b'\n");
  }
  BOOST_TEST(line_9("wandb: {enabled: true, project: " + std::string(129, 'p') + "}").find("at most 128 bytes") !=
             std::string::npos);
  for (const std::string key : {"group", "team"})
    BOOST_TEST(line_9("wandb: {enabled: true, " + key + ": \"a\\tb\"}").find("wanted a name of one line, got 'a?b'") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(usual_names_and_those_of_sections_that_are_off_are_accepted) {
  for (const char* line :
       {"mlflow: {enabled: true}", "mlflow: {enabled: true, experiment: 'my runs: 1', run_name: \"it's\"}",
        "mlflow: {enabled: false, experiment: ''}", "wandb: {enabled: true}",
        "wandb: {enabled: true, project: '', group: null, team: null}",
        "wandb: {enabled: true, project: my runs, group: a, team: b}", "wandb: {enabled: false, project: 'a/b'}"})
    BOOST_TEST(line_9(line) == "", line);
}

BOOST_AUTO_TEST_SUITE_END()
