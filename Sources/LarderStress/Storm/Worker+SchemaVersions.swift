// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting
import Synchronization

// Two versions of a program meet. The older saves its cars until it is told that they were migrated;
// the newer migrates them, several processes at once, killed on the way. Then it begins anew with a
// type of another name.

extension Worker {
  func meetPrograms() throws {
    let older = plan.roles.indices.filter { plan.roles[$0] == .oldProgram }
    // Without the other there is nothing to meet.
    guard !older.isEmpty, plan.roles.contains(.newProgram) else { return loop { rest(20) } }
    loop {
      let epoch = board.epoch
      StressEpoch.current.store(epoch, ordering: .relaxed)
      // A store of its own: it learns the types under their names of this epoch.
      let objects = ObjectStore(store)
      if role == .oldProgram {
        let index = older.firstIndex(of: slot)!
        let own = (0..<StormOracle.carCount).filter { $0 % older.count == index }
        try saveCars(own, epoch, objects)
      } else {
        try migrateCars(epoch, objects)
      }
    }
  }

  private func rest(_ milliseconds: UInt64) {
    Event().wait(nanoseconds: milliseconds * 1_000_000)
  }

  private func saveCars(_ own: [Int], _ epoch: UInt64, _ objects: ObjectStore) throws {
    while !board.isOver, board.epoch == epoch {
      board.beat(slot)
      let key = own.randomElement()!
      let before = board.car(key, .acknowledged)
      let next = max(board.car(key, .issued), epoch << 32) + 1
      board.raiseCar(key, .issued, to: next)
      do {
        if let known = try objects.object(OldCar.self, id: key) {
          judgeCar(UInt64(known.number), key, acknowledged: before, epoch)
        } else if before >> 32 == epoch {
          violation("car \(key) is missing, \(before) was acknowledged")
        }
        try objects.save(OldCar(id: key, number: "\(next)"))
        board.raiseCar(key, .acknowledged, to: next)
        board.add(.operations)
      } catch let error as ObjectError where error.code == .newerSchema {
        return rest(1)
      }
    }
  }

  private func migrateCars(_ epoch: UInt64, _ objects: ObjectStore) throws {
    rest(UInt64.random(in: 0...60))
    try objects.migrate([StressEpoch.migration])
    board.beat(slot)
    try judgeCars(epoch, objects)
    // Nobody of the older version may have written since.
    rest(UInt64.random(in: 0...5))
    try judgeCars(epoch, objects)
    board.endEpoch(epoch)
  }

  private func judgeCars(_ epoch: UInt64, _ objects: ObjectStore) throws {
    if board.epoch != epoch { return }
    let applied = try objects.appliedMigrations().filter { $0 == StressEpoch.migration.name }
    if applied.count != 1 { violation("a migration was applied \(applied.count) times") }
    let acknowledged = (0..<StormOracle.carCount).map { board.car($0, .acknowledged) }
    let (cars, indexed) = try objects.write { transaction in
      (
        try transaction.fetch(objects.objects(NewCar.self)),
        try transaction.fetch(objects.objects(NewCar.self).where(\.migrations == 1)).map(\.id)
      )
    }
    // In a new epoch nothing of the older one may be asked for.
    if board.epoch != epoch { return }
    if Set(indexed) != Set(cars.map(\.id)) || indexed.count != cars.count {
      violation("cars \(cars.map(\.id)), an index says \(indexed)")
    }
    for key in 0..<StormOracle.carCount where acknowledged[key] >> 32 == epoch {
      guard let car = cars.first(where: { $0.id == key }) else {
        violation("car \(key) was lost by a migration")
        continue
      }
      if car.migrations != 1 { violation("car \(key) was migrated \(car.migrations) times") }
      judgeCar(car.number >> 8, key, acknowledged: acknowledged[key], epoch)
    }
  }

  private func judgeCar(_ number: UInt64?, _ key: Int, acknowledged: UInt64, _ epoch: UInt64) {
    guard let number, number >> 32 == epoch else { return violation("car \(key) is foreign") }
    if acknowledged >> 32 == epoch, number < acknowledged {
      violation("car \(key) is \(number), \(acknowledged) was acknowledged")
    }
    if number > board.car(key, .issued) { violation("car \(key) was never issued") }
  }
}
