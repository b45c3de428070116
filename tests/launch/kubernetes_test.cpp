// Tests examples/kubernetes/job.yaml without a cluster: its parts must be consistent, and the environment of its pods
// and the job file in it must describe one job.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <boost/test/unit_test.hpp>

#include <map>
#include <string>

#include "apps/launch/launched_job.hpp"

#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(kubernetes)

using namespace troupe;

namespace {

struct manifest {
  std::map<std::string, YAML::Node> of_kind;

  manifest() {
    for (const auto& one : YAML::LoadAllFromFile((std::string(troupe::places::source_dir) + "/examples/kubernetes/job.yaml")))
      of_kind[one["kind"].as<std::string>()] = one;
  }
  [[nodiscard]] YAML::Node kind(const std::string& name) const {
    BOOST_TEST_REQUIRE(of_kind.contains(name));
    return of_kind.at(name);
  }
};

std::string text(const YAML::Node& n) { return n.as<std::string>(""); }

}  // namespace

BOOST_AUTO_TEST_CASE(the_parts_of_the_example_agree) {
  const manifest all;
  const auto job = all.kind("Job"), service = all.kind("Service"), pod = job["spec"]["template"]["spec"];
  BOOST_TEST(text(job["apiVersion"]) == "batch/v1");
  BOOST_TEST(text(job["spec"]["completionMode"]) == "Indexed");
  // All pods must run at the same time.
  BOOST_TEST(text(job["spec"]["completions"]) == text(job["spec"]["parallelism"]));
  BOOST_TEST(text(service["spec"]["clusterIP"]) == "None");
  BOOST_TEST(service["spec"]["publishNotReadyAddresses"].as<bool>());
  BOOST_TEST(text(service["spec"]["selector"]["job-name"]) == text(job["metadata"]["name"]));
  BOOST_TEST(text(pod["subdomain"]) == text(service["metadata"]["name"]));
  BOOST_TEST(text(pod["restartPolicy"]) == "OnFailure");
  BOOST_TEST(pod["terminationGracePeriodSeconds"].as<int>() >= 60);
  // The key fsGroup would let a group read the keys of the certificates.
  BOOST_TEST((!pod["securityContext"] || !pod["securityContext"]["fsGroup"]));
  std::map<std::string, std::string> mounts;
  for (const auto& m : pod["containers"][0]["volumeMounts"]) mounts[text(m["name"])] = text(m["mountPath"]);
  for (const auto& v : pod["volumes"]) {
    BOOST_TEST(mounts.contains(text(v["name"])), text(v["name"]));
    if (v["secret"]) BOOST_TEST(text(v["secret"]["defaultMode"]) == "0400");
    if (v["configMap"]) BOOST_TEST(text(v["configMap"]["name"]) == text(all.kind("ConfigMap")["metadata"]["name"]));
  }
  const auto command = pod["containers"][0]["command"];
  BOOST_TEST((text(command[0]) == "troupe" && text(command[1]) == "train"));
  BOOST_TEST(text(command[2]) == mounts["job"] + "/train.yaml");
}

BOOST_AUTO_TEST_CASE(its_pods_make_one_job_of_its_file) {
  const manifest all;
  const auto job = all.kind("Job"), container = job["spec"]["template"]["spec"]["containers"][0];
  const auto name = text(job["metadata"]["name"]);
  const auto file = config::load_text(text(all.kind("ConfigMap")["data"]["train.yaml"]), "train.yaml", "/job");
  BOOST_TEST_REQUIRE(file.has_value(), (file ? "" : config::render(file.error())));
  const auto pods = job["spec"]["completions"].as<uint32_t>();
  for (uint32_t i = 0; i < pods; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const std::string host = fmt::format("{}-{}", name, i);  // Kubernetes names the pods of an indexed job in this way
    apps::environment e{{"JOB_COMPLETION_INDEX", fmt::to_string(i)}, {"HOSTNAME", host}};
    for (const auto& v : container["env"]) e[text(v["name"])] = text(v["value"]);
    const auto place = apps::read_launch_place(e);
    BOOST_TEST_REQUIRE((place && *place));
    const auto part = apps::launched_job_of(**place, *file, host);
    BOOST_TEST_REQUIRE(part.has_value(), (part ? "" : part.error().text));
    using enum apps::launched_job::part;
    BOOST_TEST((part->role == (i == 0 ? leader : agent)));
    BOOST_TEST((part->own_name == host && part->node == i && part->names_hosts));
    BOOST_TEST(part->leader == name + "-0." + text(all.kind("Service")["metadata"]["name"]) + ":" +
                                   text(container["ports"][0]["containerPort"]));
    config::load_options with;
    with.overrides = part->settings;
    const auto whole = config::load_text(text(all.kind("ConfigMap")["data"]["train.yaml"]), "train.yaml", "/job", with);
    BOOST_TEST_REQUIRE(whole.has_value(), (whole ? "" : config::render(whole.error())));
    BOOST_TEST(whole->config.parallel.data == pods);
    BOOST_TEST(whole->config.cluster.tls.of(host).key == "/certs/" + host + ".key");
  }
}

BOOST_AUTO_TEST_SUITE_END()
