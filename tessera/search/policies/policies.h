// Constructors of the policies, for the table. The space and the scorer must outlive the policy.
#pragma once

#include <memory>

#include "tessera/search/policy.h"

namespace tessera::search {

std::unique_ptr<Policy> make_random(const space::Space& space, Scorer& scorer,
                                    const PolicyOptions& options);
std::unique_ptr<Policy> make_grid(const space::Space& space, Scorer& scorer,
                                  const PolicyOptions& options);
std::unique_ptr<Policy> make_local(const space::Space& space, Scorer& scorer,
                                   const PolicyOptions& options);
std::unique_ptr<Policy> make_genetic(const space::Space& space, Scorer& scorer,
                                     const PolicyOptions& options);
std::unique_ptr<Policy> make_annealing(const space::Space& space, Scorer& scorer,
                                       const PolicyOptions& options);
std::unique_ptr<Policy> make_evolutionary(const space::Space& space, Scorer& scorer,
                                          const PolicyOptions& options);
std::unique_ptr<Policy> make_language(const space::Space& space, Scorer& scorer,
                                      const PolicyOptions& options);

}  // namespace tessera::search
