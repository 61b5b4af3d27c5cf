// Constructors of the policies, for the table. The space and the scorer must outlive the policy.
#pragma once

#include <memory>

#include "tessera/search/history.h"
#include "tessera/search/policy.h"

namespace tessera::search {

// One that draws at random and remembers what was proposed and measured.
class DrawingPolicy : public Policy {
 public:
  DrawingPolicy(const decide::Space& space, const PolicyOptions& options)
      : space_(space), options_(options), history_(space.sketches().size()), rng_(options.seed) {}

  void observe(std::span<const Observation> observations) override {
    history_.observe(observations);
  }

 protected:
  const decide::Space& space_;
  PolicyOptions options_;
  History history_;
  Rng rng_;
};

std::unique_ptr<Policy> make_random(const decide::Space& space, Scorer& scorer,
                                    const PolicyOptions& options);
std::unique_ptr<Policy> make_grid(const decide::Space& space, Scorer& scorer,
                                  const PolicyOptions& options);
std::unique_ptr<Policy> make_local(const decide::Space& space, Scorer& scorer,
                                   const PolicyOptions& options);
std::unique_ptr<Policy> make_genetic(const decide::Space& space, Scorer& scorer,
                                     const PolicyOptions& options);
std::unique_ptr<Policy> make_annealing(const decide::Space& space, Scorer& scorer,
                                       const PolicyOptions& options);
std::unique_ptr<Policy> make_evolutionary(const decide::Space& space, Scorer& scorer,
                                          const PolicyOptions& options);
std::unique_ptr<Policy> make_cut(const decide::Space& space, Scorer& scorer,
                                 const PolicyOptions& options);
std::unique_ptr<Policy> make_program(const decide::Space& space, Scorer& scorer,
                                     const PolicyOptions& options);
std::unique_ptr<Policy> make_language(const decide::Space& space, Scorer& scorer,
                                      const PolicyOptions& options);

}  // namespace tessera::search
