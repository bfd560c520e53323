/** `npm run car`: play a drive in a car with sound, and print what happens and how loud each sink is. */
import { Car } from "./car.ts";
import { playDrive } from "./drive.ts";

await using car = await Car.open();
await playDrive(car, (line) => console.log(line));
