// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB

extension DynamicObjects {
  /// Gives every object as a line of JSON that says all of it, in the order of insertion, in one
  /// snapshot.
  ///
  /// - Parameter body: Given a line without its end, and how many objects there are.
  /// - Returns: How many were left out because they cannot be read; each is reported.
  package func export(
    _ type: ObjectTypeRecord, _ body: (_ line: String, _ total: Int) throws -> Void
  ) throws -> Int {
    var answered = 0
    var leftOut = 0
    try reading("export", hasAnswered: { answered > 0 }) { transaction, generation in
      leftOut = 0
      let total = Int(clamping: try ObjectReading.books(type.number, transaction).count)
      try ObjectReading.scan(type: type.number, in: generation, transaction) { found in
        switch found {
        case .success(let stored):
          guard let object = object(stored) else {
            leftOut += 1
            return true
          }
          answered += 1
          try body(LosslessJSONWriter.text(object.value), total)
        case .failure(let damage):
          tell(damage)
          leftOut += 1
        }
        return true
      }
    }
    return leftOut
  }
}
