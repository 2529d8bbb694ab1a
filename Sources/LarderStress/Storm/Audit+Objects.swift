// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting

extension Audit {
  /// The last look at the objects of a round.
  static func objects(
    _ worker: Worker, _ violation: (String) -> Void,
    _ recordingTimings: (String, () throws -> Void) throws
      -> Void
  ) throws {
    let (board, objects) = (worker.board, ObjectStore(worker.store))
    for key in 0..<ItemKeys.transient.upperBound {
      let item = try objects.object(StressItem.self, id: key)
      worker.judge(item, key, acknowledged: board.item(key, .acknowledged))
      if let item, !item.isWhole(key) { violation("object \(key) is torn") }
    }
    for key in ItemKeys.bulk {
      let found = try objects.object(StressBulk.self, id: key)?.sequence
      worker.judgeSequence(found, key, acknowledged: board.item(key, .acknowledged))
    }
    let all = try objects.objects(StressItem.self).fetch()
    for group in 0..<5 {
      let found = try objects.objects(StressItem.self).where(\.group == group).fetch()
      if Set(found.map(\.id)) != Set(all.filter { $0.group == group }.map(\.id)) {
        violation("the index of group \(group) and the objects disagree")
      }
    }
    if try objects.objects(StressItem.self).count() != all.count {
      violation("the count of objects is wrong")
    }

    let claims = try objects.objects(StressClaim.self).fetch()
    if Set(claims.map(\.key)).count != claims.count { violation("two claims of one key") }
    for claim in claims {
      let found = try objects.objects(StressClaim.self).where(\.key == claim.key).fetch()
      if found.map(\.id) != [claim.id] { violation("the claim of key \(claim.key) is not found") }
    }
    let defects = try objects.write { transaction in
      try (0..<6).flatMap { try RelationshipInvariant.defects(of: $0, objects, &transaction) }
    }
    for defect in defects { violation(defect) }

    // Nothing is held by anybody who is gone: everything can be written.
    try recordingTimings("saving an object") {
      try objects.save(StressItem(0, board.issueItem(0)))
    }
    try recordingTimings("deleting everything of a type") { try objects.deleteAll(StressBulk.self) }
  }
}
