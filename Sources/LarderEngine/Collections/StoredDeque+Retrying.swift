// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension StoredDeque {
  /// Moves all failed elements to the end of the deque, in one transaction.
  ///
  /// - Returns: Their number.
  package func retryFailed() throws -> Int { try run("retry", retrying()) }

  package func retryFailed() async throws -> Int { try await run("retry", retrying()) }

  private func retrying() throws -> Step<Int> {
    let (space, failed, isFailed) = (try space.get(), try failedSpace.get(), isFailed)
    return { state, transaction in
      if isFailed { return 0 }
      let places = try transaction.changeDeque(failed) { state, _ in
        var places: [Int] = []
        while let next = state.takeFirst(now: .max) { places.append(next.place) }
        return places
      }.0
      transaction.exceedsPinLimit = true
      defer { transaction.exceedsPinLimit = false }
      var count = 0
      for place in places {
        guard case .found(let element) = try transaction.element(at: place, in: failed) else {
          continue
        }
        _ = try transaction.unset(EncodedKey(place), in: failed)
        try transaction.setElement(element, at: state.append(), in: space)
        count += 1
      }
      return count
    }
  }
}
