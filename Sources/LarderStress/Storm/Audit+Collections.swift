// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting

extension Audit {
  /// The last look at types with a budget, at what two types share and at what was paged.
  static func collections(_ worker: Worker, _ violation: (String) -> Void) throws {
    let (board, objects) = (worker.board, ObjectStore(worker.store))
    // Whoever reads uses, and whoever uses evicts nothing: first the books.
    try worker.judgeUsage(objects)
    let usage = try objects.usage(of: StressThumb.self)
    let all = objects.objects(StressThumb.self)
    let stored = try all.fetch()
    if stored.count != usage.count {
      violation("the books have \(usage.count) objects, \(stored.count) are stored")
    }
    for key in OracleRegion.bounded.keys {
      let acknowledged = board.value(.bounded, key, .acknowledged)
      let thumb = try objects.object(StressThumb.self, id: key)
      worker.judgeBounded(thumb, key, acknowledged: acknowledged)
      if thumb?.sequence != stored.first(where: { $0.id == key })?.sequence {
        violation("bounded object \(key) is another in a query")
      }
    }
    for tag in 0..<3 {
      let defects = Worker.indexDefects(
        stored, groups: try (0..<5).map { try all.where(\.group == $0).fetch().map(\.id) },
        tag: tag, tagged: try all.where { $0.tags.contains(tag) }.fetch().map(\.id))
      for defect in defects { violation(defect) }
    }
    let accounts = try objects.objects(StressAccount.self).fetch()
    let vaults = try objects.objects(StressVault.self).fetch()
    if let defect = StressBank.defect(accounts, vaults) { violation(defect) }
    for key in OracleRegion.paged.keys {
      let inserted = board.value(.paged, key, .acknowledged)
      let birth = try objects.object(StressPage.self, id: key)?.birth
      if let birth, birth > board.value(.paged, key, .issued) || birth < inserted {
        violation("paged object \(key) is \(birth), \(inserted) was acknowledged")
      }
      if birth == nil, inserted > board.value(.paged, key, .deletionIssued) {
        violation("paged object \(key) is missing, \(inserted) was acknowledged")
      }
    }
    // Everything can still be written.
    try objects.save(StressThumb(1, board.issue(.bounded, 1)))
    try worker.judgeUsage(objects)
  }
}
