// Tests the keys that configure processes: their fields, errors with their position, and when a key has no effect.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "config/explain.hpp"
#include "config/keys/idle.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(cluster)

using namespace troupe::config;

namespace {

loaded loaded_from(const std::string& text, const load_options& options = {}) {
  auto l = load_text(text, "j.yaml", "/base", options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  return std::move(*l);
}
job_config with_line(const std::string& line) { return loaded_from(smallest + line + "\n").config; }

/// Returns the errors of the smallest file, which has two data ranks, with `line` added as line 9.
std::string line_9(const std::string& line) { return errors_of(smallest + line + "\n"); }

std::string idle_in(const job_config& c, const std::string& key) { return idle(*key_named(key), c); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_is_one_process_unless_it_says_otherwise) {
  const job_config c = with_line("");
  BOOST_TEST(!c.cluster.is_on());
  BOOST_TEST(c.cluster.processes_for(8) == 1U);
  BOOST_TEST(c.cluster.lost_after_s == 5);
  BOOST_TEST((c.cluster.min_ranks == 1U && c.cluster.spares == 0U && c.cluster.on_loss == loss_policy::recover));
  BOOST_TEST((c.cluster.restarts.max == 10U && c.cluster.restarts.backoff_s == 0.5 && c.cluster.restarts.processes));
  BOOST_TEST((c.checkpoint.memory.every_steps == 0U && c.checkpoint.memory.copies == 2U));
}

BOOST_AUTO_TEST_CASE(processes_are_one_for_each_rank_or_a_number) {
  const job_config each = with_line("cluster: {processes: ranks}"), two = with_line("cluster: {processes: 2}"),
                   alone = with_line("cluster: {processes: 1}");
  BOOST_TEST((each.cluster.is_on() && two.cluster.is_on() && alone.cluster.is_on()));
  BOOST_TEST(each.cluster.processes_for(6) == 6U);
  BOOST_TEST(two.cluster.processes_for(6) == 2U);
  BOOST_TEST(alone.cluster.processes_for(6) == 1U);
}

BOOST_AUTO_TEST_CASE(all_keys_give_what_they_say) {
  const job_config c = with_line(
      "cluster: {processes: ranks, lost_after: 750ms, min_ranks: 2, spares: 3, on_loss: stop, restarts: {max: 4, "
      "backoff: 2s, processes: false}}\ncheckpoint: {memory: {every_steps: 5, copies: 1}}");
  BOOST_TEST(c.cluster.lost_after_s == 0.75);
  BOOST_TEST((c.cluster.min_ranks == 2U && c.cluster.spares == 3U && c.cluster.on_loss == loss_policy::stop));
  BOOST_TEST((c.cluster.restarts.max == 4U && c.cluster.restarts.backoff_s == 2 && !c.cluster.restarts.processes));
  BOOST_TEST((c.checkpoint.memory.every_steps == 5U && c.checkpoint.memory.copies == 1U));
}

BOOST_AUTO_TEST_CASE(the_effective_configuration_loads_to_the_same_processes) {
  for (const char* processes : {"one", "ranks", "2", "1"}) {
    const loaded first = loaded_from(smallest + "cluster: {processes: " + processes + ", lost_after: 1.5}\n");
    const loaded again = loaded_from(effective_yaml(first));
    BOOST_TEST((again.config.cluster.choice == first.config.cluster.choice), processes);
    BOOST_TEST(again.config.cluster.number == first.config.cluster.number, processes);
    BOOST_TEST(again.config.cluster.lost_after_s == 1.5, processes);
    BOOST_TEST(again.config.checkpoint.memory.every_steps == first.config.checkpoint.memory.every_steps, processes);
  }
}

BOOST_AUTO_TEST_CASE(processes_keep_a_checkpoint_of_every_step_in_memory_unless_the_file_says_otherwise) {
  BOOST_TEST(with_line("cluster: {processes: ranks}").checkpoint.memory.every_steps == 1U);
  BOOST_TEST(with_line("cluster: {processes: 1}").checkpoint.memory.every_steps == 1U);
  BOOST_TEST(
      with_line("cluster: {processes: ranks}\ncheckpoint: {memory: {every_steps: 0}}").checkpoint.memory.every_steps ==
      0U);
  BOOST_TEST(with_line("checkpoint: {memory: {every_steps: 3}}").checkpoint.memory.every_steps == 3U);
}

BOOST_AUTO_TEST_CASE(more_processes_than_ranks_and_a_number_that_does_not_divide_them_are_refused) {
  BOOST_TEST(line_9("cluster: {processes: 3}") ==
             "j.yaml:9:22: error: cluster.processes: wanted at most the job's 2 ranks, got 3\n");
  BOOST_TEST(errors_of(smallest_with("{data: 2}", "{data: 2, pipeline: 2}") + "cluster: {processes: 3}\n") ==
             "j.yaml:9:22: error: cluster.processes: wanted a divisor of the job's 4 ranks, got 3\n");
  BOOST_TEST(errors_of(smallest_with("{data: 2}", "{ranks: 6, pipeline: 2}") + "cluster: {processes: 3}\n") == "");
}

BOOST_AUTO_TEST_CASE(what_is_no_number_of_processes_is_refused_with_what_would_do) {
  const std::string wanted = "wanted one, ranks, or an integer from 1 to 65536, got ";
  for (const char* value : {"0", "-1", "many", "1.5", "true", "65537"})
    BOOST_TEST_CONTEXT(value)
    BOOST_TEST(line_9(std::string("cluster: {processes: ") + value + "}") ==
               "j.yaml:9:22: error: cluster.processes: " + wanted + value + "\n");
  BOOST_TEST(line_9("cluster: {lost_after: 400ms}") ==
             "j.yaml:9:23: error: cluster.lost_after: wanted seconds from 0.5 to 3600, such as 5, 500ms, 5s, 2min or "
             "1h, got 400ms\n");
}

BOOST_AUTO_TEST_CASE(more_ranks_at_least_than_the_job_has_are_refused) {
  BOOST_TEST(line_9("cluster: {processes: ranks, min_ranks: 2}") == "");
  BOOST_TEST(line_9("cluster: {processes: ranks, min_ranks: 3}") ==
             "j.yaml:9:40: error: cluster.min_ranks: wanted at most the job's 2 ranks, got 3\n");
}

namespace {

const std::string tls = "tls: {ca: a, certificate: b, key: c}";
std::string with_hosts(const std::string& hosts, const std::string& more = {}) {
  return line_9("cluster: {hosts: [" + hosts + "], listen: \"10.0.0.1:4400\", " + tls + more + "}");
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_give_each_rank_a_process_and_saves_in_memory) {
  const job_config c = with_line("cluster: {hosts: [{name: a}, {name: b}], listen: \"10.0.0.1:4400\", " + tls + "}");
  BOOST_TEST((c.cluster.choice == process_choice::ranks));
  BOOST_TEST(c.checkpoint.memory.every_steps == 1U);
  BOOST_TEST((c.cluster.hosts.size() == 2 && c.cluster.hosts[1].name == "b" && c.cluster.hosts[1].ranks == 1U));
}

BOOST_AUTO_TEST_CASE(hosts_that_do_not_make_a_job_are_refused_by_name) {
  const auto says = [](const std::string& errors, const char* what) {
    BOOST_TEST(errors.find(what) != std::string::npos, "wanted `" << what << "` in: " << errors);
  };
  BOOST_TEST(with_hosts("{name: a}, {name: b}") == "");
  says(with_hosts("{name: a}"), "wanted hosts for the job's 2 ranks, got hosts for 1");
  says(with_hosts("{name: a}, {name: a}"), "wanted each name once, got a twice");
  says(with_hosts("{name: a}, {name: -b}"), "wanted a name of letters, digits and .-:_, got `-b`");
  says(with_hosts("{name: a}, {name: \"b;c\"}"), "wanted a name of letters, digits and .-:_, got `b;c`");
  says(with_hosts("{name: a}, {name: b}", ", processes: one"),
       "wanted `ranks` or a number with cluster.hosts, got `one`");
  says(with_hosts("{name: a}, {name: b}", ", processes: 1"),
       "wanted a number of ranks per process that divides the ranks of every host");
  says(with_hosts("{name: a}, {name: b}", ", spares: 1"), "cluster.spares: cannot be combined with cluster.hosts");
  BOOST_TEST(with_hosts("{name: a}, {name: b}, {name: c, spare: true}", ", job: english") == "");
  says(with_hosts("{name: a}, {name: b, spare: true}"), "wanted hosts for the job's 2 ranks, got hosts for 1");
  says(with_hosts("{name: a, spare: true}, {name: b}, {name: c}"),
       "the first host starts the job and cannot be a spare");
  says(with_hosts("{name: a}, {name: b}", ", job: \"a\\tb\""), "cluster.job: wanted a name of at most 253 bytes");
  says(line_9("cluster: {hosts: [{name: a}, {name: b}], " + tls + "}"), "requires cluster.listen");
  says(line_9("cluster: {hosts: [{name: a}, {name: b}], listen: here, " + tls + "}"), "wanted HOST:PORT, got `here`");
  says(line_9("cluster: {hosts: [{name: a}, {name: b}], listen: \"10.0.0.1:1\"}"),
       "wanted ca, certificate and key, got none, and cluster.listen is not a loopback address; create them with "
       "troupe cert init and troupe cert issue");
}

BOOST_AUTO_TEST_CASE(a_store_is_an_etcd_of_a_job_with_a_name_and_checkpoints_that_all_hosts_see) {
  const auto with_store = [](const std::string& store, const std::string& more, const std::string& checkpoint) {
    return line_9("cluster: {hosts: [{name: a}, {name: b}], listen: \"10.0.0.1:4400\", " + tls + ", store: \"" + store +
                  "\"" + more + "}\n" + checkpoint);
  };
  const std::string job = ", job: english", every = "checkpoint: {every_steps: 20}";
  const auto says = [](const std::string& errors, const char* what) {
    BOOST_TEST(errors.find(what) != std::string::npos, "wanted `" << what << "` in: " << errors);
  };
  BOOST_TEST(with_store("etcd://10.0.0.9:2379,[::1]:2379", job, every) == "");
  BOOST_TEST(with_store("", "", "") == "");
  says(with_store("consul://10.0.0.9:2379", job, every), "wanted etcd://HOST:PORT");
  says(with_store("etcd://10.0.0.9", job, every), "got `etcd://10.0.0.9`");
  says(with_store("etcd://a:1", "", every), "requires cluster.job");
  says(with_store("etcd://a:1", ", job: a/b", every), "cluster.job: wanted a name without /");
  says(with_store("etcd://a:1", job + ", on_loss: stop", every), "requires cluster.on_loss: recover");
  says(with_store("etcd://a:1", job, ""), "requires checkpoints, from which another host continues");
  says(with_store("etcd://a:1", job, "checkpoint: {every_steps: 20, use_node_local_storage: true}"),
       "cannot be combined with checkpoint.use_node_local_storage");
  BOOST_TEST(idle_in(with_line("cluster: {store: \"etcd://a:1\"}"), "cluster.store") == "there are no cluster.hosts");
}

BOOST_AUTO_TEST_CASE(a_store_beside_open_degrees_is_refused_by_name) {
  const std::string text = smallest_with("{data: 2}", "{ranks: 4, tensor: auto}");
  const std::string errors = errors_of(text + "cluster: {store: \"etcd://a:1\"}\n");
  BOOST_TEST(errors.find("cluster.store: cannot be combined with parallel.tensor: auto") != std::string::npos, errors);
}

BOOST_AUTO_TEST_CASE(processes_go_together_with_open_degrees) {
  std::string text = smallest_with("{data: 2}", "{ranks: 4, tensor: auto, data: auto}");
  text = text.replace(text.find("train_micro_batch_size_per_gpu: 4"), 33, "train_batch_size: 16") + "cluster: ";
  BOOST_TEST(errors_of(text + "{processes: one, stall_after: 9}\n") == "");
  BOOST_TEST(errors_of(text + "{processes: ranks}\n") == "");
  BOOST_TEST(errors_of(text + "{processes: 2}\n") == "");
}

BOOST_AUTO_TEST_CASE(explain_says_that_keys_about_losses_do_nothing_in_one_process) {
  const job_config one = with_line(""), more = with_line("cluster: {processes: ranks}"),
                   stops = with_line("cluster: {processes: ranks, on_loss: stop}"),
                   none_kept = with_line("cluster: {processes: ranks}\ncheckpoint: {memory: {every_steps: 0}}");
  for (const char* key : {"cluster.lost_after", "cluster.min_ranks", "cluster.spares", "cluster.on_loss",
                          "cluster.restarts.max", "cluster.restarts.backoff", "cluster.restarts.processes",
                          "checkpoint.memory.every_steps", "checkpoint.memory.copies", "checkpoint.tag_validation"}) {
    BOOST_TEST(idle_in(one, key) == "cluster.processes is one", key);
    BOOST_TEST(idle_in(more, key) == "", key);
  }
  for (const char* key : {"cluster.processes", "cluster.stall_after", "cluster.host_memory_budget"})
    BOOST_TEST(idle_in(one, key) == "", key);
  BOOST_TEST(idle_in(stops, "cluster.restarts.max") == "on_loss is stop");
  BOOST_TEST(idle_in(stops, "cluster.min_ranks") == "on_loss is stop");
  BOOST_TEST(idle_in(stops, "cluster.lost_after") == "");
  BOOST_TEST(idle_in(none_kept, "checkpoint.memory.copies") == "every_steps is 0");
}

BOOST_AUTO_TEST_SUITE_END()
