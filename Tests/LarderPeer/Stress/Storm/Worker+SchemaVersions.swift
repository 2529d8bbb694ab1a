// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization

// Two versions of a program share a store. The older one saves cars until a save reports that they
// were migrated; several processes of the newer one migrate them and are killed meanwhile. Then the
// next epoch starts with a type of another name.

extension Worker {
  func runSchemaVersion() -> [Operation] {
    let older = plan.roles.indices.filter { plan.roles[$0] == .oldProgram }
    // A round without both versions has nothing to migrate.
    guard !older.isEmpty, plan.roles.contains(.newProgram) else {
      return [Operation(1) { self.rest(milliseconds: 20) }]
    }
    return [
      Operation(1) {
        let epoch = self.board.epoch
        StressEpoch.current.store(epoch, ordering: .relaxed)
        // A new object store registers the types under their names of this epoch.
        let objects = ObjectStore(self.store)
        if self.role == .oldProgram {
          try self.saveCars(OracleRegion.cars.own(self.place), epoch, objects)
        } else {
          try self.migrateCars(epoch, objects)
        }
      }
    ]
  }

  private func saveCars(_ own: [Int], _ epoch: UInt64, _ objects: ObjectStore) throws {
    while !board.isOver, board.epoch == epoch {
      beat()
      let key = own.randomElement()!
      let before = board[.cars, key, .acknowledged]
      let next = max(board[.cars, key, .issued], epoch << 32) + 1
      board.raise(.cars, key, .issued, to: next)
      do {
        let known = try objects.object(OldCar.self, id: key)
        judgeCar(known.map { UInt64($0.number) ?? 0 }, key, acknowledged: before, epoch)
        try objects.save(OldCar(id: key, number: "\(next)"))
        board.raise(.cars, key, .acknowledged, to: next)
        board.add(.operations)
      } catch let error as ObjectError where error.code == .newerSchema {
        return rest(milliseconds: 1)
      }
    }
  }

  private func migrateCars(_ epoch: UInt64, _ objects: ObjectStore) throws {
    rest(milliseconds: UInt64.random(in: 0...60))
    try objects.migrate([StressEpoch.migration])
    beat()
    try judgeCars(epoch, objects)
    // No process of the older version may have written since.
    rest(milliseconds: UInt64.random(in: 0...5))
    try judgeCars(epoch, objects)
    board.endEpoch(epoch)
  }

  private func judgeCars(_ epoch: UInt64, _ objects: ObjectStore) throws {
    if board.epoch != epoch { return }
    let applied = try objects.appliedMigrations().filter { $0 == StressEpoch.migration.name }
    if applied.count != 1 { violation("a migration was applied \(applied.count) times") }
    let acknowledged = OracleRegion.cars.keys.map { board[.cars, $0, .acknowledged] }
    let (cars, indexed) = try objects.write { transaction in
      (
        try transaction.fetch(objects.objects(NewCar.self)),
        try transaction.fetch(objects.objects(NewCar.self).where(\.migrations == 1)).map(\.id)
      )
    }
    // The bounds belong to one epoch only.
    if board.epoch != epoch { return }
    if Set(indexed) != Set(cars.map(\.id)) || indexed.count != cars.count {
      violation("cars \(cars.map(\.id)), an index returns \(indexed)")
    }
    for key in OracleRegion.cars.keys where acknowledged[key] >> 32 == epoch {
      let car = cars.first { $0.id == key }
      if let car, car.migrations != 1 {
        violation("car \(key) was migrated \(car.migrations) times")
      }
      judgeCar(car.map { $0.number >> 8 }, key, acknowledged: acknowledged[key], epoch)
    }
  }

  /// Judges the number of a car, if it is stored, against the writes of its epoch.
  private func judgeCar(
    _ number: UInt64?, _ key: Int, acknowledged: UInt64, _ epoch: UInt64
  ) {
    if let number, number >> 32 != epoch { return violation("car \(key) is foreign") }
    let bound = acknowledged >> 32 == epoch ? acknowledged : 0
    judge(BareSequence(number), key, of: .cars, Expectation(acknowledged: bound))
  }
}
#endif
