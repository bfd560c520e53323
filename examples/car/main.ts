/** `npm run car`: play a drive in a car with sound, and print what happens and how loud each sink is. */
import { Car } from "./car.ts";
import { playDrive } from "./drive.ts";
import { whatToInstall } from "./needed-programs.ts";

const why = whatToInstall();
if (why === undefined) {
  await using car = await Car.open();
  await playDrive(car, (line) => console.log(line));
} else {
  console.error(why);
  process.exitCode = 1;
}
